//! Path and query parameters: axum's, with our own error objects.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The parameters of the path, decoded.
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters after the `?`. One that is given twice, or is not UTF-8, is refused.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(value)| Self(value)).map_err(|rejection| {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        query.map(|axum::extract::Query(value)| Self(value)).map_err(|rejection| {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
        })
    }
}

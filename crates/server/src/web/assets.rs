//! The page's files: in the program, or on disk while somebody works on them.

use std::path::{Component, PathBuf};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::error::ApiError;
use crate::extract::Path;
use crate::state::App;

/// The files that the program carries.
static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/web");
/// Where `index.html` looks for the page's files, until it is served.
const PLACEHOLDER: &str = "/ui/dev/";

/// Where the page comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Web {
    /// Out of the program.
    #[default]
    Embedded,
    /// Off a directory, read anew at each request: `--web-dir`.
    Dir(PathBuf),
    /// There is none: `--no-web`.
    Off,
}

/// The page, ready to be served.
pub(crate) struct Assets {
    source: Web,
    /// The name of this version: what it names never changes.
    version: String,
}

impl Assets {
    pub(crate) fn new(source: Web) -> Self {
        let version = match source {
            Web::Embedded => version(&EMBEDDED),
            Web::Dir(_) | Web::Off => "dev".to_owned(),
        };
        Self { source, version }
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        match &self.source {
            Web::Embedded => EMBEDDED.get_file(path).map(|file| file.contents().to_vec()),
            Web::Dir(dir) => {
                let relative = std::path::Path::new(path);
                let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
                plain.then(|| std::fs::read(dir.join(relative)).ok()).flatten()
            }
            Web::Off => None,
        }
    }
}

/// A digest of all files.
fn version(dir: &Dir<'_>) -> String {
    fn add(dir: &Dir<'_>, digest: &mut Sha256) {
        for file in dir.files() {
            digest.update(file.path().as_os_str().as_encoded_bytes());
            digest.update(Sha256::digest(file.contents()));
        }
        dir.dirs().for_each(|dir| add(dir, digest));
    }
    let mut digest = Sha256::new();
    add(dir, &mut digest);
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The page itself. It decides by its address what it shows.
pub(crate) async fn index(State(app): State<App>) -> Response {
    let Some(html) = app.assets.read("index.html") else { return absent(&app) };
    let html = String::from_utf8_lossy(&html).replace(PLACEHOLDER, &format!("/ui/{}/", app.assets.version));
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
    (headers, html).into_response()
}

/// One of its files.
pub(crate) async fn file(
    State(app): State<App>,
    Path((version, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    // A page that was open over an update asks for files of its own version, which are gone.
    if version != app.assets.version {
        let problem = "this file is of another version of the page; load the page again";
        return ApiError::new(StatusCode::NOT_FOUND, "not_found", problem).into_response();
    }
    let tag = format!("\"{version}\"");
    let embedded = app.assets.source == Web::Embedded;
    if embedded && headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes())
    {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let Some(bytes) = app.assets.read(&path) else { return absent(&app) };
    let mut response = ([(header::CONTENT_TYPE, media_type(&path))], bytes).into_response();
    if embedded {
        let headers = response.headers_mut();
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        headers.insert(header::CACHE_CONTROL, forever);
        headers.insert(header::ETAG, HeaderValue::try_from(tag).expect("a hexadecimal tag is a header"));
    }
    response
}

/// The icon, for browsers that ask for it by its old name.
pub(crate) async fn icon(State(app): State<App>) -> Response {
    if app.assets.source == Web::Off {
        return absent(&app);
    }
    let icon = include_str!("../../templates/icon.svg");
    ([(header::CONTENT_TYPE, media_type("icon.svg"))], icon).into_response()
}

fn absent(app: &App) -> Response {
    let problem = match app.assets.source {
        Web::Off => "this daemon serves no page (--no-web)",
        Web::Embedded | Web::Dir(_) => "the page has no such file",
    };
    ApiError::new(StatusCode::NOT_FOUND, "not_found", problem).into_response()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, kind)| kind) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" | "toml" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

//! `http` where `https` is spoken, and the other way: told by the first bytes that come back.

/// What to do where the other end speaks this scheme.
pub(crate) fn scheme_is(scheme: &str) -> String {
    format!("what listens there speaks {scheme}; write the address with {scheme}://")
}

/// The scheme that is spoken at the other end, where the first bytes from there show that it is not ours.
pub(crate) fn other_scheme(tls: bool, error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if tls && matches!(error.downcast_ref(), Some(rustls::Error::InvalidMessage(_))) {
            return Some("http");
        }
        // TLS answers plain text with an alert, which is no head of HTTP.
        if !tls && error.to_string() == "invalid HTTP version parsed" {
            return Some("https");
        }
        // An I/O error hides the error that it was made of from the chain of sources.
        next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Whether a server of TLS says that it was spoken to without it: common ones do so in HTTP.
pub(crate) fn is_tls_refusal(base: &str, body: &[u8]) -> bool {
    let told = |text: &str| text.contains("HTTP request") && text.contains("HTTPS");
    base.starts_with("http:") && std::str::from_utf8(body).is_ok_and(told)
}

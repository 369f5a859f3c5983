//! What every handler can reach.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use holdpoint_engine::Engine;
use metrics_exporter_prometheus::PrometheusHandle;
use secrecy::SecretString;

use crate::access::{AllowedOrigins, Gate};
use crate::listen::ConnectionLimits;
use crate::web::{Assets, Web};

/// What the server is set to.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address that it is bound to.
    pub address: SocketAddr,
    /// The host name that it was told to bind to, as people write it in a URL.
    pub hostname: String,
    /// The bearer token, if one is needed.
    pub token: Option<SecretString>,
    /// Whether the token is needed for `/health` too, and on loopback.
    pub require_auth: bool,
    /// Other sites whose pages may talk to the daemon.
    pub origins: AllowedOrigins,
    /// Whether requests are counted, and too many refused.
    pub rate_limit: bool,
    /// What connections may do, as [`serve`](crate::serve) is told.
    pub connections: ConnectionLimits,
    /// What browsers are shown.
    pub web: Web,
    /// The workspaces that sessions may have, the primary first: absolute, without links.
    pub workspaces: Vec<String>,
    /// The daemon's version.
    pub version: String,
    /// The model, as the start-up line names it.
    pub model: String,
}

/// What every handler can reach. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) engine: Engine,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) assets: Arc<Assets>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) started: Instant,
    pub(crate) daemon_id: uuid::Uuid,
}

impl App {
    /// The state of a server over an engine.
    pub fn new(engine: Engine, config: ServerConfig, metrics: PrometheusHandle) -> Self {
        Self {
            engine,
            gate: Arc::new(Gate::new(&config)),
            assets: Arc::new(Assets::new(config.web.clone())),
            config: Arc::new(config),
            metrics,
            started: Instant::now(),
            daemon_id: uuid::Uuid::new_v4(),
        }
    }

    /// The workspace for requests that name none.
    pub(crate) fn primary(&self) -> &str {
        self.config.workspaces.first().map_or("/", String::as_str)
    }
}

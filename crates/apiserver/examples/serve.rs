//! Serves an empty cluster on a loopback port, for kubectl and for curl, until Ctrl-C.
//!
//! ```text
//! cargo run -p windlass-apiserver --example serve 8001
//! kubectl --server http://127.0.0.1:8001 get namespaces
//! ```

use std::error::Error;

use windlass_apiserver::ApiServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(0), |port| port.parse::<u16>())?;
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], port)).await?;
    println!("{}", listening.kubeconfig());
    tokio::signal::ctrl_c().await?;
    listening.stop().await;
    Ok(())
}

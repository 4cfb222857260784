//! A Website operator with `ApplyCleanup`: `cargo run --example apply_cleanup`.
//!
//! `docs/choosing.md` compares it with the other models, and `tests/models` tests all of them.

mod operator;
#[path = "../website/user.rs"]
mod user;
#[path = "../website/website.rs"]
mod website;

use tokio_util::sync::CancellationToken;
use windlass::Operator;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // On a cluster: `Client::try_default().await?`.
    let client = windlass_apiserver::ApiServer::new().client();
    user::install_crd(&client).await?;
    let (dns, stop) = (website::Dns::default(), CancellationToken::new());
    let user = tokio::spawn(user::run(client.clone(), dns.clone(), stop.clone()));
    let operator = Operator::new();
    operator.add_controller(operator::websites(client, dns))?;
    operator.run_until(stop).await?;
    user.await?
}

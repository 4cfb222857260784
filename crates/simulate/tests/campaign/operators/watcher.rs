//! Watchers: a plain one, and one in an opinionated wrapper.

use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_controller::{Failure, OpinionatedWatcher, Watcher};
use windlass_simulate::Process;

use super::{
    Bug, Ended, controller, finalizers,
    publish::{Publish, page},
};
use crate::site::Site;

struct Watch {
    publish: Publish,
    /// Whether the objects have a finalizer.
    held: bool,
}

pub(crate) async fn plain_watcher(process: Process, bug: Option<Bug>) -> Ended {
    let (controller, sites) = controller(&process)?;
    let watch = Watch {
        publish: Publish::new(&process, process.client(), bug),
        held: false,
    };
    controller.add_watcher(&sites, process.handler("watch", watch))?;
    Ok(controller.run(process.stop()).await?)
}

pub(crate) async fn opinionated_watcher(process: Process, bug: Option<Bug>) -> Ended {
    let (controller, sites) = controller(&process)?;
    let publish = Publish::new(&process, process.client(), bug);
    let watch = Watch {
        publish: publish.clone(),
        held: true,
    };
    let watch = process.handler("watch", watch);
    let watcher = OpinionatedWatcher::new(finalizers(&process, "watcher"), watch);
    let watcher = watcher.sync(move |site: Arc<Site>| {
        let publish = publish.clone();
        async move {
            if bug == Some(Bug::IgnoresTheFirstList) {
                return Ok(());
            }
            publish.publish(&site).await
        }
    });
    controller.add_watcher(&sites, watcher)?;
    Ok(controller.run(process.stop()).await?)
}

// === impl Watch ===

impl Watch {
    async fn publish(&self, site: &Site) -> Result<(), Failure> {
        if self.held {
            return self.publish.publish(site).await;
        }
        // The page has no owner reference, so that the watcher has to delete it.
        let mut page = page(site);
        page.metadata.owner_references = None;
        let uid = site.uid().unwrap_or_default();
        page.metadata.annotations = Some([("site".to_owned(), uid)].into());
        self.publish.ensure(site, page).await
    }
}

impl Watcher<Site> for Watch {
    type Error = Failure;

    async fn add(&self, site: Arc<Site>) -> Result<(), Failure> {
        self.publish(&site).await
    }

    async fn update(&self, _: Arc<Site>, site: Arc<Site>) -> Result<(), Failure> {
        self.publish(&site).await
    }

    async fn delete(&self, site: Arc<Site>) -> Result<(), Failure> {
        if self.held {
            return self.publish.clean_up(&site).await;
        }
        self.publish.delete_page(&site).await
    }
}

//! A reconciler of a kind that is known only at run time.

use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject},
};
use windlass_controller::{
    Action, Failure, FinalizerName, Finalizers, InformerController, OpinionatedReconciler, Outcome,
    Request,
};
use windlass_informer::{Informer, ListWatch};
use windlass_simulate::Process;

use super::Ended;
use crate::site::Site;

pub(crate) async fn dynamic_kinds(process: Process) -> Ended {
    let kind = ApiResource {
        group: Site::group(&()).into_owned(),
        version: Site::version(&()).into_owned(),
        api_version: Site::api_version(&()).into_owned(),
        kind: Site::kind(&()).into_owned(),
        plural: Site::plural(&()).into_owned(),
    };
    let api: Api<DynamicObject> = Api::all_with(process.client(), &kind);
    let objects = Informer::new(ListWatch::from((api.clone(), kind.clone())));
    process.observe(&objects);
    let controller = InformerController::builder().name("dynamic").build()?;
    let objects_kind = controller.kind("objects")?;
    controller.add_informer(&objects_kind, &objects)?;
    let external = process.external();
    let copy = move |request: Request<DynamicObject>| {
        let external = external.clone();
        async move {
            let object = request.object();
            // The uid, not the name: a failed clean-up can be retried after a new object with the
            // same name was copied.
            let name = object.uid().unwrap_or_default();
            if request.action() == Action::Deleted {
                external.remove(&name).await?;
            } else {
                external.put(&name, object.data["spec"].to_string()).await?;
            }
            Ok::<_, Failure>(Outcome::done())
        }
    };
    let name = FinalizerName::new("simulate.windlass.dev/dynamic")?;
    let finalizers = Finalizers::of(api, &kind, name)?;
    let copy = OpinionatedReconciler::new(finalizers, process.handler("copy", copy));
    controller.add_reconciler(&objects_kind, copy)?;
    Ok(controller.run(process.stop()).await?)
}

//! Versions of custom resources: their storage, conversion and deprecation.

use http::Method;
use serde_json::{Value, json};

use super::raw::Raw;
use super::widget::{DEFINITIONS, Widget};

on_both_servers! {
    /// docs/apiserver.md: row 107.
    async fn a_version_that_is_not_served_is_not_found(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&any());
        let mut old = definition["spec"]["versions"][0].clone();
        old["name"] = "v1alpha1".into();
        old["storage"] = false.into();
        old["served"] = false.into();
        definition["spec"]["versions"].as_array_mut().expect("versions").push(old);
        widget.define(&definition).await;
        let path = raw.at(&format!("/apis/{}/v1alpha1", widget.group), "widgets");
        assert_eq!(raw.get(&path).await.code, 404);
    }

    /// Operators meet this at each upgrade of a definition.
    async fn a_change_of_its_definition_ends_a_watch(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&any());
        let mut old = definition["spec"]["versions"][0].clone();
        old["name"] = "v1alpha1".into();
        old["storage"] = false.into();
        definition["spec"]["versions"].as_array_mut().expect("versions").push(old);
        widget.define(&definition).await;
        let created = widget.create("a", &json!({})).await;
        let version = created["metadata"]["resourceVersion"].as_str().expect("a version");
        let old = raw.at(&format!("/apis/{}/v1alpha1", widget.group), "widgets");
        raw.until(&old, |answer| answer.code == 200).await;
        // An annotation is no change of the definition.
        let query = format!("watch=1&timeoutSeconds=300&resourceVersion={version}");
        let mut schema = raw.watch(&format!("{}?{query}", widget.all())).await;
        let annotation = json!({ "metadata": { "annotations": { "a": "b" } } });
        raw.merge(&widget.own_path(), &annotation).await.ok();
        let changed = tokio::time::timeout(std::time::Duration::from_secs(3), schema.next()).await;
        assert!(changed.is_err(), "{changed:?}");

        let began = tokio::time::Instant::now();
        let mut versions = definition["spec"]["versions"].clone();
        let properties = &mut versions[0]["schema"]["openAPIV3Schema"]["properties"];
        properties["size"] = json!({ "type": "integer" });
        raw.merge(&widget.own_path(), &json!({ "spec": { "versions": versions } })).await.ok();
        assert_eq!(schema.next_line().await, "end");
        assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());

        // The watch of a version that is not served any more.
        raw.until(&old, |answer| answer.code == 200).await;
        let mut dropped = raw.watch(&format!("{old}?{query}")).await;
        let began = tokio::time::Instant::now();
        versions[1]["served"] = false.into();
        raw.merge(&widget.own_path(), &json!({ "spec": { "versions": versions } })).await.ok();
        assert_eq!(dropped.next_line().await, "end");
        assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
    }

    /// docs/apiserver.md: row 113.
    async fn a_version_stays_as_long_as_objects_may_be_stored_in_it(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        widget.define(&widget.definition(&any())).await;
        let path = widget.own_path();
        let status = format!("{path}/status");
        let versions = |names: &[(&str, bool)]| {
            let versions = names.iter().map(|(name, storage)| {
                let mut version = widget.definition(&any())["spec"]["versions"][0].clone();
                version["name"] = (*name).into();
                version["storage"] = (*storage).into();
                version
            });
            json!({ "spec": { "versions": versions.collect::<Vec<_>>() } })
        };
        let dropped = |at: usize, version: &str| format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"{}\" is invalid: \
             status.storedVersions[{at}]: Invalid value: \"{version}\": missing from spec.versions; \
             {version} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {version} and removes {version} \
             from status.storedVersions",
            widget.name()
        );
        let message = raw.merge(&path, &versions(&[("v2", true)])).await.refused(422, "Invalid");
        assert_eq!(message, dropped(0, "v1"));
        let changed = raw.merge(&path, &versions(&[("v1", false), ("v2", true)])).await.ok();
        assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
        let message = raw.merge(&path, &versions(&[("v1", true)])).await.refused(422, "Invalid");
        assert_eq!(message, dropped(1, "v2"));
        for dry_run in ["", "?dryRun=All"] {
            let path = format!("{path}{dry_run}");
            let message = raw.merge(&path, &versions(&[("v2", true)])).await.refused(422, "Invalid");
            assert_eq!(message, dropped(0, "v1"));
        }
        let stored = |names: Value| json!({ "status": { "storedVersions": names } });
        let changed = raw.merge(&status, &stored(json!(["v2"]))).await.ok();
        assert_eq!(changed["status"]["storedVersions"], json!(["v2"]));
        let changed = raw.merge(&path, &versions(&[("v2", true)])).await.ok();
        assert_eq!(changed["status"]["storedVersions"], json!(["v2"]));
        assert_eq!(changed["spec"]["versions"].as_array().map(Vec::len), Some(1));
        let served = raw.at(&format!("/apis/{}/v2", widget.group), "widgets");
        raw.until(&served, |answer| answer.code == 200).await;
        raw.until(&widget.all(), |answer| answer.code == 404).await;

        // What the status alone may say.
        for (names, expected) in [
            (json!([]), json!(["v2"])),
            (Value::Null, json!(["v2"])),
            (json!(["v9"]), json!(["v9"])),
            (json!(["v2", "v9"]), json!(["v2", "v9"])),
            (json!(["v2", "v2"]), json!(["v2", "v2"])),
        ] {
            let changed = raw.merge(&format!("{status}?dryRun=All"), &stored(names)).await.ok();
            assert_eq!(changed["status"]["storedVersions"], expected);
        }
    }

    /// docs/apiserver.md: row 113.
    async fn an_object_is_the_same_in_every_version(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&any());
        let mut beta = definition["spec"]["versions"][0].clone();
        beta["name"] = "v1beta1".into();
        beta["storage"] = false.into();
        definition["spec"]["versions"].as_array_mut().expect("versions").push(beta);
        widget.define(&definition).await;
        let created = widget.create("w", &json!({ "size": 1 })).await;
        let path = raw.at(&format!("/apis/{}/v1beta1", widget.group), "widgets/w");
        let mut read = raw.get(&path).await.ok();
        assert_eq!(read["apiVersion"], format!("{}/v1beta1", widget.group));
        read["apiVersion"] = created["apiVersion"].clone();
        assert_eq!(read, created);
    }

    /// docs/apiserver.md: row 113.
    async fn a_conversion_webhook_needs_a_configuration_of_its_client(cluster: Cluster) {
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let path = format!("{DEFINITIONS}?dryRun=All");
        let create = async |conversion: Value| {
            let mut definition = widget.definition(&any());
            definition["spec"]["conversion"] = conversion;
            raw.post(&path, &definition).await
        };
        let none = json!({ "strategy": "None" });
        for conversion in [Value::Null, none.clone()] {
            assert_eq!(create(conversion).await.ok()["spec"]["conversion"], none);
        }
        let webhook = |client: Value, versions: Value| json!({
            "strategy": "Webhook",
            "webhook": { "clientConfig": client, "conversionReviewVersions": versions },
        });
        let url = webhook(json!({ "url": "https://localhost:9/convert" }), json!(["v1"]));
        assert_eq!(create(url.clone()).await.ok()["spec"]["conversion"], url);
        let service = |more: Value| {
            let mut service = json!({ "name": "s", "namespace": "n" });
            for (name, value) in more.as_object().into_iter().flatten() {
                service[name] = value.clone();
            }
            webhook(json!({ "service": service }), json!(["v2", "v1beta1", "v1"]))
        };
        for (sent, stored) in [
            (json!({}), json!({ "port": 443 })),
            (json!({ "port": 8443, "path": "/convert" }), json!({ "port": 8443, "path": "/convert" })),
        ] {
            assert_eq!(create(service(sent)).await.ok()["spec"]["conversion"], service(stored));
        }
        let local = json!({ "url": "https://localhost:9/convert" });
        for (conversion, told) in [
            (json!({}), "spec.conversion.strategy: Required value"),
            (json!({ "strategy": "Webhook" }), "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"),
            (webhook(json!({}), json!(["v1"])), "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"),
            (webhook(json!({ "url": "https://localhost", "service": { "name": "s", "namespace": "n" } }), json!(["v1"])), "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"),
            (webhook(json!({ "url": "http://localhost" }), json!(["v1"])), r#"spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme"#),
            (service(json!({ "port": 0 })), "spec.conversion.webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"),
            (service(json!({ "path": "convert" })), r#"spec.conversion.webhookClientConfig.service.path: Invalid value: "convert": must start with a '/'"#),
            // The real server names the other field.
            (service(json!({ "name": "" })), "spec.conversion.webhookClientConfig.service.namespace: Required value"),
            (service(json!({ "namespace": "" })), "spec.conversion.webhookClientConfig.service.name: Required value"),
            (webhook(local.clone(), json!([])), "spec.conversion.conversionReviewVersions: Required value"),
            (webhook(local.clone(), json!(["v2"])), r#"spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1"#),
            (webhook(local.clone(), json!(["v1", "V_1"])), r#"spec.conversion.conversionReviewVersions[1]: Invalid value: "V_1": a DNS-1035 label"#),
            (webhook(local.clone(), json!(["v1", "v1"])), r#"spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version"#),
            (json!({ "strategy": "None", "webhook": { "clientConfig": local, "conversionReviewVersions": ["v1"] } }), "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook"),
            (json!({ "strategy": "None", "webhook": { "conversionReviewVersions": ["v1"] } }), "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook"),
        ] {
            let answer = create(conversion.clone()).await;
            let message = answer.refused(422, "Invalid");
            assert!(message.contains(told), "{conversion}: {message}\nlacks\n{told}");
        }
    }

    /// docs/apiserver.md: rows 20, 113.
    async fn a_deprecated_version_is_a_warning_in_every_response(cluster: Cluster) {
        let _history = cluster.remember_history().await;
        let raw = Raw::new(&cluster).await;
        let widget = Widget::new(&raw);
        let mut definition = widget.definition(&json!({
            "type": "object", "properties": { "size": { "type": "integer" } },
        }));
        let version = definition["spec"]["versions"][0].clone();
        for (name, warning) in [("v1beta1", None), ("v1alpha1", Some("use v1, \"é\""))] {
            let mut version = version.clone();
            version["name"] = name.into();
            version["storage"] = false.into();
            version["deprecated"] = true.into();
            if let Some(warning) = warning {
                version["deprecationWarning"] = warning.into();
            }
            definition["spec"]["versions"].as_array_mut().expect("versions").push(version);
        }
        widget.define(&definition).await;
        let group = &widget.group;
        let plain = format!("299 - \"{group}/v1beta1 Widget is deprecated; use {group}/v1 Widget\"");
        for (version, warning) in [
            ("v1", None),
            ("v1beta1", Some(plain.as_str())),
            ("v1alpha1", Some(r#"299 - "use v1, \"é\"""#)),
        ] {
            let all = raw.at(&format!("/apis/{}/{version}", widget.group), "widgets");
            raw.until(&all, |answer| answer.code == 200).await;
            let one = format!("{all}/w");
            let mut object = widget.object("w", &json!({ "size": 1 }));
            object["apiVersion"] = format!("{}/{version}", widget.group).into();
            let mut invalid = object.clone();
            invalid["spec"]["size"] = "x".into();
            let expected: Vec<_> = warning.into_iter().collect();
            let json = [("content-type", "application/json")];
            let merge = [("content-type", "application/merge-patch+json")];
            let apply = [("content-type", "application/apply-patch+yaml")];
            let text = object.to_string();
            let applied = format!("{one}?fieldManager=me&force=true");
            let status = format!("{one}/status");
            for (method, path, headers, body, code) in [
                (Method::POST, &all, &json, text.as_str(), 201),
                (Method::POST, &all, &json, text.as_str(), 409),
                (Method::POST, &all, &json, &invalid.to_string(), 422),
                (Method::POST, &all, &json, "{", 400),
                (Method::GET, &all, &json, "", 200),
                (Method::GET, &one, &json, "", 200),
                (Method::GET, &format!("{one}2"), &json, "", 404),
                (Method::GET, &format!("{all}?limit=x&watch=0&resourceVersion=x"), &json, "", 400),
                (Method::GET, &format!("{all}?watch=1&timeoutSeconds=1"), &json, "", 200),
                (Method::PUT, &one, &json, text.as_str(), 422),
                (Method::PATCH, &one, &merge, "{}", 200),
                (Method::PATCH, &one, &apply, text.as_str(), 422),
                (Method::PATCH, &applied, &apply, text.as_str(), 200),
                (Method::GET, &status, &json, "", 200),
                (Method::PATCH, &status, &merge, r#"{"status":{"ready":true}}"#, 200),
                (Method::DELETE, &one, &json, "", 200),
                (Method::DELETE, &one, &json, "", 404),
                (Method::DELETE, &all, &json, "", 200),
            ] {
                let answer = raw.ask(method.clone(), path, headers, body).await;
                assert_eq!((answer.code, &answer.warnings), (code, &expected.iter().map(ToString::to_string).collect()), "{method} {path}: {}", answer.text);
            }
        }
    }
}

/// Takes anything.
fn any() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

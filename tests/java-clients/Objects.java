import static java.util.Map.of;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ConfigMapList;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.api.model.Secret;
import io.fabric8.kubernetes.api.model.SecretBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.NonDeletingOperation;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Creates, reads, changes and deletes objects of built-in kinds. */
class Objects {
  static void use(KubernetesClient client) {
    configMaps(client);
    lists(client);
    applies(client);
    workloads(client);
  }

  private static void configMaps(KubernetesClient client) {
    var maps = client.configMaps();
    ConfigMap created = maps.resource(configMap("a", of("value", "1"))).create();
    Clients.check(created.getMetadata().getUid() != null, created);
    Clients.check(codeOf(() -> maps.resource(configMap("a", of())).create()) == 409, "no conflict");
    Clients.check(maps.withName("none").get() == null, "an object that does not exist");

    // A JSON patch of the difference.
    ConfigMap edited =
        maps.withName("a")
            .edit(it -> new ConfigMapBuilder(it).addToData("more", "2").build());
    Clients.check(edited.getData().equals(of("value", "1", "more", "2")), edited);
    ConfigMap stale = new ConfigMapBuilder(created).addToData("value", "old").build();
    Clients.check(codeOf(() -> maps.resource(stale).update()) == 409, "no conflict");
    var merge = PatchContext.of(PatchType.JSON_MERGE);
    ConfigMap merged = maps.withName("a").patch(merge, "{\"data\":{\"more\":null}}");
    Clients.check(merged.getData().equals(of("value", "1")), merged);
    var json = PatchContext.of(PatchType.JSON);
    String replace = "[{\"op\":\"replace\",\"path\":\"/data/value\",\"value\":\"3\"}]";
    Clients.check(maps.withName("a").patch(json, replace).getData().equals(of("value", "3")), "3");
    ConfigMap updated =
        maps.resource(configMap("a", of("value", "4"))).createOr(NonDeletingOperation::update);
    Clients.check(updated.getData().equals(of("value", "4")), updated);
    Clients.check(
        codeOf(() -> maps.resource(configMap("Not a name", of())).create()) == 422, "a bad name");

    Clients.check(maps.withName("a").delete().size() == 1, "deleted objects");
    Clients.check(maps.withName("a").delete().isEmpty(), "deleted objects");
    Secret secret = new SecretBuilder().withNewMetadata().withName("s").endMetadata()
        .withStringData(of("password", "p")).build();
    secret = client.secrets().resource(secret).create();
    Clients.check(secret.getData().equals(of("password", "cA==")), secret);
    client.secrets().withName("s").delete();
  }

  private static void lists(KubernetesClient client) {
    var maps = client.configMaps();
    for (String name : List.of("a", "b", "c")) {
      maps.resource(configMap(name, of())).create();
    }
    var options = new ListOptionsBuilder().withLimit(2L);
    ConfigMapList page = maps.withLabel("app", "java").list(options.build());
    Clients.check(names(page).equals(List.of("a", "b")), page);
    options.withContinue(page.getMetadata().getContinue());
    Clients.check(names(maps.withLabel("app", "java").list(options.build())).equals(List.of("c")), "c");
    Clients.check(names(maps.withField("metadata.name", "b").list()).equals(List.of("b")), "b");
    Clients.check(names(maps.withLabelNotIn("app", "java").withLabel("app").list()).isEmpty(), "none");
    Clients.check(maps.withLabel("app", "java").delete().size() == 3, "deleted objects");
    Clients.check(names(maps.withLabel("app", "java").list()).isEmpty(), "none");
  }

  private static void applies(KubernetesClient client) {
    var maps = client.configMaps();
    var ours = PatchContext.of(PatchType.SERVER_SIDE_APPLY);
    ConfigMap applied = maps.resource(configMap("applied", of("value", "1"))).serverSideApply();
    Clients.check(manager(applied).equals("fabric8 Apply"), applied.getMetadata());
    var theirs = maps.resource(configMap("applied", of("value", "2"))).fieldManager("theirs");
    Clients.check(codeOf(theirs::serverSideApply) == 409, "no conflict");
    applied = theirs.forceConflicts().serverSideApply();
    Clients.check(applied.getData().equals(of("value", "2")), applied);
    ConfigMap dry = maps.resource(configMap("dry", of())).dryRun().create();
    Clients.check(dry.getMetadata().getUid() != null && maps.withName("dry").get() == null, dry);

    String yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: loaded\ndata:\n  value: '1'\n"
        + "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: loaded\n";
    var loaded = client.load(new ByteArrayInputStream(yaml.getBytes(StandardCharsets.UTF_8)));
    Clients.check(loaded.serverSideApply().size() == 2, "applied objects");
    Clients.check(loaded.delete().size() == 2, "deleted objects");
    maps.withName("applied").withTimeout(10, TimeUnit.SECONDS).delete();
    Clients.check(maps.withName("applied").get() == null, "a deleted object");
  }

  private static void workloads(KubernetesClient client) {
    Deployment deployment =
        new DeploymentBuilder()
            .withNewMetadata().withName("java").endMetadata()
            .withNewSpec()
            .withNewSelector().addToMatchLabels("app", "java").endSelector()
            .withNewTemplate()
            .withNewMetadata().addToLabels("app", "java").endMetadata()
            .withNewSpec()
            .addNewContainer().withName("web").withImage("web:1").endContainer()
            .endSpec()
            .endTemplate()
            .endSpec()
            .build();
    var ours = client.apps().deployments().withName("java");
    Deployment created = client.resource(deployment).create();
    Clients.check(created.getSpec().getReplicas() == 1, created);
    Clients.check(ours.scale(3).getSpec().getReplicas() == 3, "replicas");
    Deployment edited =
        ours.edit(it -> new DeploymentBuilder(it).editSpec().editTemplate().editSpec()
            .editFirstContainer().withImage("web:2").endContainer()
            .endSpec().endTemplate().endSpec().build());
    Clients.check(edited.getMetadata().getGeneration() == 3, edited);
    // A list of containers is merged by name.
    String change = "{\"spec\":{\"template\":{\"spec\":{\"containers\":"
        + "[{\"name\":\"web\",\"command\":[\"true\"]}]}}}}";
    edited = ours.patch(PatchContext.of(PatchType.STRATEGIC_MERGE), change);
    var container = edited.getSpec().getTemplate().getSpec().getContainers().get(0);
    Clients.check(container.getImage().equals("web:2"), container);
    Deployment status =
        ours.editStatus(it -> new DeploymentBuilder(it).withNewStatus().withReplicas(3).endStatus().build());
    Clients.check(status.getStatus().getReplicas() == 3, status);
    ours.delete();
  }

  static ConfigMap configMap(String name, java.util.Map<String, String> data) {
    return new ConfigMapBuilder()
        .withNewMetadata().withName(name).addToLabels("app", "java").endMetadata()
        .withData(data)
        .build();
  }

  static int codeOf(Runnable call) {
    try {
      call.run();
    } catch (KubernetesClientException error) {
      return error.getCode();
    }
    return 0;
  }

  private static String manager(HasMetadata object) {
    var entry = object.getMetadata().getManagedFields().get(0);
    return entry.getManager() + " " + entry.getOperation();
  }

  private static List<String> names(ConfigMapList list) {
    return list.getItems().stream().map(it -> it.getMetadata().getName()).toList();
  }
}

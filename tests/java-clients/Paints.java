import static java.util.Map.of;

import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceBuilder;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinitionBuilder;
import io.fabric8.kubernetes.api.model.apiextensions.v1.JSONSchemaPropsBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Custom resources, with a type of their own and as generic objects. */
class Paints {
  /** Creates the definition. */
  static void define(Config config) {
    var spec = new JSONSchemaPropsBuilder().withType("object")
        .addToProperties("colour", new JSONSchemaPropsBuilder().withType("string").build())
        .addToProperties("litres", new JSONSchemaPropsBuilder().withType("integer")
            .withDefault(new com.fasterxml.jackson.databind.node.IntNode(5)).build())
        .build();
    var status = new JSONSchemaPropsBuilder().withType("object")
        .addToProperties("dry", new JSONSchemaPropsBuilder().withType("boolean").build())
        .build();
    var definition =
        new CustomResourceDefinitionBuilder()
            .withNewMetadata().withName("paints." + Paint.GROUP).endMetadata()
            .withNewSpec()
            .withGroup(Paint.GROUP)
            .withScope("Namespaced")
            .withNewNames().withKind("Paint").withPlural("paints").withSingular("paint").endNames()
            .addNewVersion()
            .withName("v1").withServed(true).withStorage(true)
            .withNewSubresources().withNewStatus().endStatus().endSubresources()
            .withNewSchema().withNewOpenAPIV3Schema().withType("object")
            .addToProperties("spec", spec).addToProperties("status", status)
            .endOpenAPIV3Schema().endSchema()
            .endVersion()
            .endSpec()
            .build();
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      client.resource(definition).serverSideApply();
      client
          .resource(definition)
          .waitUntilCondition(
              it -> it.getStatus() != null && it.getStatus().getConditions().stream()
                  .anyMatch(condition -> condition.getType().equals("Established")
                      && condition.getStatus().equals("True")),
              60,
              TimeUnit.SECONDS);
    }
  }

  /** Deletes the definition. */
  static void remove(Config config) {
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      client.apiextensions().v1().customResourceDefinitions().withName("paints." + Paint.GROUP).delete();
    }
  }

  static void use(KubernetesClient client) throws Exception {
    typed(client);
    generic(client);
  }

  private static void typed(KubernetesClient client) throws Exception {
    var paints = client.resources(Paint.class);
    Paint paint = new Paint();
    paint.setMetadata(new ObjectMetaBuilder().withName("typed").build());
    paint.setSpec(new Paint.Spec());
    paint.getSpec().colour = "red";
    Paint created = createOnceServed(() -> paints.resource(paint).create());
    Clients.check(created.getSpec().litres == 5, created);
    Paint edited = paints.withName("typed").edit(it -> {
      it.getSpec().colour = "blue";
      return it;
    });
    Clients.check(edited.getMetadata().getGeneration() == 2, edited);
    edited.setStatus(new Paint.Status());
    edited.getStatus().dry = true;
    Paint written = paints.resource(edited).updateStatus();
    Clients.check(written.getStatus().dry && written.getMetadata().getGeneration() == 2, written);
    paints.withName("typed").delete();
  }

  private static void generic(KubernetesClient client) throws Exception {
    var kind =
        new ResourceDefinitionContext.Builder()
            .withGroup(Paint.GROUP).withVersion("v1").withKind("Paint").withPlural("paints")
            .withNamespaced(true)
            .build();
    var paints = client.genericKubernetesResources(kind);
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    var informer =
        paints.inform(
            new ResourceEventHandler<>() {
              @Override
              public void onAdd(GenericKubernetesResource object) {
                events.add("added " + colour(object));
              }

              @Override
              public void onUpdate(GenericKubernetesResource old, GenericKubernetesResource object) {
                events.add("updated " + colour(old) + " " + colour(object));
              }

              @Override
              public void onDelete(GenericKubernetesResource object, boolean unknown) {
                events.add("deleted " + colour(object));
              }
            });
    try (informer) {
      paints.resource(paint("red")).create();
      var applied = paints.resource(paint("blue")).forceConflicts().serverSideApply();
      Clients.check(applied.<Integer>get("spec", "litres") == 5, applied);
      paints.withName("generic").edit(it -> paint("green"));
      String merge = "{\"spec\":{\"litres\":\"many\"}}";
      var context = PatchContext.of(PatchType.JSON_MERGE);
      int code = Objects.codeOf(() -> paints.withName("generic").patch(context, merge));
      Clients.check(code == 422, code);
      // The default is a strategic merge patch, which custom resources do not have.
      code = Objects.codeOf(() -> paints.withName("generic").patch(merge));
      Clients.check(code == 415, code);
      Clients.check(paints.list().getItems().size() == 1, paints.list());
      Clients.check(paints.withName("generic").delete().size() == 1, "deleted objects");
      Watches.expect(events, "added red", "updated red blue", "updated blue green", "deleted green");
    }
  }

  private static GenericKubernetesResource paint(String colour) {
    return new GenericKubernetesResourceBuilder()
        .withApiVersion(Paint.GROUP + "/v1")
        .withKind("Paint")
        .withNewMetadata().withName("generic").endMetadata()
        .addToAdditionalProperties("spec", of("colour", colour))
        .build();
  }

  private static String colour(GenericKubernetesResource object) {
    return object.get("spec", "colour");
  }

  /** The server stores objects of a new kind shortly after it is established. */
  private static Paint createOnceServed(java.util.function.Supplier<Paint> create)
      throws InterruptedException {
    for (int attempt = 0; ; attempt++) {
      try {
        return create.get();
      } catch (KubernetesClientException error) {
        if (error.getCode() != 404 || attempt == 100) {
          throw error;
        }
        TimeUnit.MILLISECONDS.sleep(100);
      }
    }
  }
}

import static java.util.Map.of;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Watches objects, and keeps them in informers. */
class Watches {
  /** The longest time for an event that the server sends at once. */
  private static final int SECONDS = 60;

  static void use(KubernetesClient client) throws Exception {
    watch(client);
    inform(client);
    waitForConditions(client);
  }

  private static void watch(KubernetesClient client) throws Exception {
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    Watcher<ConfigMap> watcher =
        new Watcher<>() {
          @Override
          public void eventReceived(Action action, ConfigMap object) {
            events.add(action + " " + object.getData().get("value"));
          }

          @Override
          public void onClose() {
            events.add("closed");
          }

          @Override
          public void onClose(WatcherException error) {
            events.add(String.valueOf(error));
          }
        };
    try (var watch = client.configMaps().withName("watched").watch(watcher)) {
      change(client, "watched");
      expect(events, "ADDED 1", "MODIFIED 2", "DELETED 2");
    }
    expect(events, "closed");
  }

  private static void inform(KubernetesClient client) throws Exception {
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    var before = client.configMaps().resource(Objects.configMap("before", of("value", "0"))).create();
    var informer =
        client
            .configMaps()
            .withLabel("app", "java")
            .runnableInformer(0)
            .addIndexers(of("values", it -> List.of(it.getData().get("value"))))
            .addEventHandler(
                new ResourceEventHandler<ConfigMap>() {
                  @Override
                  public void onAdd(ConfigMap object) {
                    events.add("added " + object.getData().get("value"));
                  }

                  @Override
                  public void onUpdate(ConfigMap old, ConfigMap object) {
                    String values = old.getData().get("value") + " " + object.getData().get("value");
                    events.add("updated " + values);
                  }

                  @Override
                  public void onDelete(ConfigMap object, boolean unknown) {
                    events.add("deleted " + object.getData().get("value"));
                  }
                });
    try (informer) {
      informer.start().toCompletableFuture().get(SECONDS, TimeUnit.SECONDS);
      Clients.check(informer.hasSynced(), "not synced");
      expect(events, "added 0");
      String key = before.getMetadata().getNamespace() + "/before";
      Clients.check(informer.getIndexer().getByKey(key).equals(before), informer.getStore().list());
      change(client, "informed");
      expect(events, "added 1", "updated 1 2", "deleted 2");
      Clients.check(informer.getIndexer().byIndex("values", "0").size() == 1, "the index");
      Clients.check(informer.getStore().list().size() == 1, informer.getStore().list());
    }
    client.configMaps().withName("before").delete();
  }

  /** The client watches the object with an informer. */
  private static void waitForConditions(KubernetesClient client) {
    client.configMaps().resource(Objects.configMap("slow", of("value", "1"))).create();
    var waited =
        client
            .configMaps()
            .withName("slow")
            .informOnCondition(objects -> objects.stream().anyMatch(it -> it.getData().containsKey("done")));
    client
        .configMaps()
        .withName("slow")
        .edit(it -> new ConfigMapBuilder(it).addToData("done", "yes").build());
    waited.orTimeout(SECONDS, TimeUnit.SECONDS).join();
    client.configMaps().withName("slow").delete();
    var deleted = client.configMaps().withName("slow");
    deleted.waitUntilCondition(it -> it == null, SECONDS, TimeUnit.SECONDS);
  }

  private static void change(KubernetesClient client, String name) {
    var maps = client.configMaps();
    maps.resource(Objects.configMap(name, of("value", "1"))).create();
    maps.withName(name).edit(it -> new ConfigMapBuilder(it).addToData("value", "2").build());
    maps.withName(name).delete();
  }

  static void expect(BlockingQueue<String> events, String... expected) throws InterruptedException {
    for (String event : expected) {
      String found = events.poll(SECONDS, TimeUnit.SECONDS);
      Clients.check(event.equals(found), "expected " + event + ", found " + found + " " + events);
    }
  }
}

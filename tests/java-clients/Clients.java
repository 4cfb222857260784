import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.http.BasicBuilder;
import io.fabric8.kubernetes.client.http.HttpClient;
import io.fabric8.kubernetes.client.http.HttpRequest;
import io.fabric8.kubernetes.client.http.Interceptor;
import io.fabric8.kubernetes.client.http.WebSocket;
import io.fabric8.kubernetes.client.jdkhttp.JdkHttpClientFactory;
import io.fabric8.kubernetes.client.vertx.VertxHttpClientFactory;
import java.io.File;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Uses a server with fabric8's client: with both of its transports for watches, WebSockets and long
 * responses, and with two of its HTTP clients.
 */
public class Clients {
  /** Counts the watches of each transport, so that a silent change of the transport fails. */
  static class Transports implements Interceptor {
    final AtomicInteger webSockets = new AtomicInteger();
    final AtomicInteger responses = new AtomicInteger();

    @Override
    public void before(BasicBuilder builder, HttpRequest request, RequestTags tags) {
      if (String.valueOf(request.uri().getQuery()).contains("watch=true")) {
        (builder instanceof WebSocket.Builder ? webSockets : responses).incrementAndGet();
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    Config config = Config.fromKubeconfig(new File(arguments[0]));
    String namespace = arguments[1];
    Paints.define(config);
    // Vert.x is the default.
    use("vertx", new VertxHttpClientFactory(), config, namespace, false);
    use("vertx", new VertxHttpClientFactory(), config, namespace, true);
    use("jdk", new JdkHttpClientFactory(), config, namespace, false);
    use("jdk", new JdkHttpClientFactory(), config, namespace, true);
    Paints.remove(config);
    System.exit(0);
  }

  private static void use(
      String http, HttpClient.Factory factory, Config config, String namespace, boolean onlyHttp)
      throws Exception {
    config = new ConfigBuilder(config).withNamespace(namespace).withOnlyHttpWatches(onlyHttp).build();
    Transports transports = new Transports();
    try (KubernetesClient client =
        new KubernetesClientBuilder()
            .withConfig(config)
            .withHttpClientFactory(factory)
            .withHttpClientBuilderConsumer(it -> it.addOrReplaceInterceptor("transports", transports))
            .build()) {
      if (!onlyHttp) {
        Objects.use(client);
      }
      Watches.use(client);
      Paints.use(client);
    }
    int expected = (onlyHttp ? transports.responses : transports.webSockets).get();
    int others = (onlyHttp ? transports.webSockets : transports.responses).get();
    check(expected > 0 && others == 0, expected + " and " + others + " watches");
    System.out.println("ok " + http + (onlyHttp ? " responses" : " WebSockets"));
  }

  static void check(boolean holds, Object found) {
    if (!holds) {
      throw new AssertionError(String.valueOf(found));
    }
  }
}

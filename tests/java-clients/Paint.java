import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Kind;
import io.fabric8.kubernetes.model.annotation.Plural;
import io.fabric8.kubernetes.model.annotation.Version;

/** A custom resource with a type of its own. */
@Group(Paint.GROUP)
@Version("v1")
@Kind("Paint")
@Plural("paints")
public class Paint extends CustomResource<Paint.Spec, Paint.Status> implements Namespaced {
  static final String GROUP = "java.clients.example";

  /** The wanted state. */
  public static class Spec {
    public String colour;
    public Integer litres;
  }

  /** The observed state. */
  public static class Status {
    public Boolean dry;
  }
}

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Optional;
import org.apache.kafka.common.protocol.ApiKeys;

/**
 * Prints the API versions that the brokers of the release on the class path list: key, name, first and last version,
 * separated by tabs. By reflection, since the classes differ between releases.
 *
 * <p>The argument is the kind of broker for releases that have listener types (2.8 and later): ZK_BROKER or BROKER.
 */
public final class ApiVersionsOfRelease {
    public static void main(String[] arguments) throws Exception {
        for (ApiKeys key : ApiKeys.values()) {
            if (isListed(key, arguments[0])) {
                int[] range = range(key);
                if (range != null && range[0] <= range[1]) {
                    System.out.println(key.id + "\t" + key.name + "\t" + range[0] + "\t" + range[1]);
                }
            }
        }
    }

    private static boolean isListed(ApiKeys key, String kind) throws Exception {
        try {
            Class<?> type = Class.forName("org.apache.kafka.common.message.ApiMessageType$ListenerType");
            for (Object listener : type.getEnumConstants()) {
                if (listener.toString().equals(kind)) {
                    return (Boolean) ApiKeys.class.getMethod("inScope", type).invoke(key, listener);
                }
            }
            throw new IllegalArgumentException("no listener type " + kind);
        } catch (ClassNotFoundException releaseBefore28) {
            try {
                Field isEnabled = ApiKeys.class.getField("isEnabled");
                return isEnabled.getBoolean(key);
            } catch (NoSuchFieldException releaseBefore27) {
                return true;
            }
        }
    }

    private static int[] range(ApiKeys key) throws Exception {
        try {
            Method toApiVersion = ApiKeys.class.getMethod("toApiVersion", boolean.class);
            Object version = ((Optional<?>) toApiVersion.invoke(key, false)).orElse(null);
            return version == null ? null : new int[] {number(version, "minVersion"), number(version, "maxVersion")};
        } catch (NoSuchMethodException releaseBefore35) {
            return new int[] {key.oldestVersion(), key.latestVersion()};
        }
    }

    private static int number(Object target, String name) throws Exception {
        return ((Number) target.getClass().getMethod(name).invoke(target)).intValue();
    }
}

// Reads operations on a quota manager of Kafka, one a line, and prints the result of each: a throttle time in
// milliseconds, "refused" before one that comes with an error, "-" for none. Words: "new KIND SAMPLES SECONDS"; "set USER CLIENT VALUE", where "-" stands for no user,
// client or value and "*" for the default; "record", "strict" and "back USER CLIENT VALUE TIME"; "max USER CLIENT".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Optional;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

public class QuotaThrottles {
    private static long nowMs;
    private static ClientQuotaManager manager;

    private static final Time CLOCK = new Time() {
        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            nowMs += ms;
        }
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.append(run(line.split(" "))).append('\n');
        }
        System.out.print(out);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                if (manager != null) {
                    manager.shutdown();
                }
                manager = create(words[1], new ClientQuotaManagerConfig(Integer.parseInt(words[2]), Integer.parseInt(words[3])));
                return "-";
            case "set":
                Optional<Quota> quota = words[3].equals("-") ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(words[3])));
                manager.updateQuota(user(words[1]), client(words[2]), quota);
                return "-";
            case "max":
                return Double.toString(manager.maxValueInQuotaWindow(session(words[1]), words[2]));
            default:
                nowMs = Long.parseLong(words[4]);
                return count(words[0], session(words[1]), words[2], Double.parseDouble(words[3]));
        }
    }

    private static ClientQuotaManager create(String kind, ClientQuotaManagerConfig config) {
        Metrics metrics = new Metrics(CLOCK);
        switch (kind) {
            case "fetch":
                return new ClientQuotaManager(config, metrics, QuotaType.FETCH, CLOCK, "");
            case "request":
                return new ClientRequestQuotaManager(config, metrics, CLOCK, "", Optional.empty());
            default:
                return new ControllerMutationQuotaManager(config, metrics, CLOCK, "", Optional.empty());
        }
    }

    private static String count(String word, Session session, String client, double value) {
        switch (word) {
            case "back":
                manager.unrecordQuotaSensor(session, client, value, nowMs);
                return "0";
            case "strict":
                try {
                    ((ControllerMutationQuotaManager) manager).newStrictQuotaFor(session, client).record(value);
                    return "0";
                } catch (ThrottlingQuotaExceededException refused) {
                    return "refused " + refused.throttleTimeMs();
                }
            default:
                if (manager instanceof ControllerMutationQuotaManager) {
                    ControllerMutationQuota quota = ((ControllerMutationQuotaManager) manager).newPermissiveQuotaFor(session, client);
                    quota.record(value);
                    return Integer.toString(quota.throttleTime());
                }
                return Integer.toString(manager.maybeRecordAndGetThrottleTimeMs(session, client, value, nowMs));
        }
    }

    private static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
    }

    private static Optional<ConfigEntity> user(String name) {
        switch (name) {
            case "-":
                return Optional.empty();
            case "*":
                return Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
            default:
                return Optional.of(new ClientQuotaManager.UserEntity(name));
        }
    }

    private static Optional<ConfigEntity> client(String name) {
        switch (name) {
            case "-":
                return Optional.empty();
            case "*":
                return Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
            default:
                return Optional.of(new ClientQuotaManager.ClientIdEntity(name));
        }
    }
}

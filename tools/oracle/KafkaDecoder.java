// Reads lines "message version hex", and says what Kafka's own generated classes make of the bytes:
// "ok USED HEX", the bytes taken and the message written again, or "! REASON" where it cannot be; "bad REASON" otherwise.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class KafkaDecoder {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            out.println(judge(find(parts[0]), Short.parseShort(parts[1]), HexFormat.of().parseHex(parts[2])));
        }
        out.flush();
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String place : PLACES) {
            try {
                return Class.forName(String.format(place, name));
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static String judge(Class<?> kind, short version, byte[] raw) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(raw);
        Message message;
        try {
            message = (Message) kind
                .getConstructor(org.apache.kafka.common.protocol.Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(buffer), version);
        } catch (InvocationTargetException error) {
            return "bad " + oneLine(error.getCause());
        }
        return "ok " + buffer.position() + " " + written(message, version);
    }

    private static String written(Message message, short version) {
        try {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            return HexFormat.of().formatHex(buffer.array());
        } catch (RuntimeException error) {
            return "! " + oneLine(error);
        }
    }

    private static String oneLine(Throwable error) {
        return String.valueOf(error).replace('\n', ' ').replace('\r', ' ');
    }
}

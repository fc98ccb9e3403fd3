// Reads lines "message version case seed", and writes for each a golden vector as a line of JSON: a message that Kafka's
// generated classes read and wrote, with the JSON of Kafka's converter. Case 0 is small, and null where it may be; the
// others have values by the seed, and tagged fields that no schema has. Record batches are of the format of the version.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;

public class GoldenVectors {
    private static final int UNKNOWN_TAG = 10_000;
    private static final long[] NUMBERS = {0, 1, -1, Long.MIN_VALUE, Long.MAX_VALUE};

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            short version = Short.parseShort(parts[1]);
            boolean small = parts[2].equals("0");
            out.println(new GoldenVectors(parts[0], version, small, Long.parseLong(parts[3])).write());
        }
        out.flush();
    }

    private final String name;
    private final short version;
    private final boolean small;
    private final Random random;

    private GoldenVectors(String name, short version, boolean small, long seed) {
        this.name = name;
        this.version = version;
        this.small = small;
        this.random = new Random(seed);
    }

    private String write() throws Exception {
        Class<?> kind = Class.forName("org.apache.kafka.common.message." + name + "Data");
        Schema schema = (Schema) kind.getField("SCHEMA_" + version).get(null);
        Struct struct = fill(schema, true);
        ByteBuffer filled = ByteBuffer.allocate(schema.sizeOf(struct));
        schema.write(filled, struct);
        filled.flip();
        Message message = (Message) kind
            .getConstructor(org.apache.kafka.common.protocol.Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(filled), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        Class<?> converter = Class.forName(kind.getName() + "JsonConverter");
        Method toJson = converter.getMethod("write", kind, short.class, boolean.class);
        StringBuilder tags = new StringBuilder();
        for (RawTaggedField field : message.unknownTaggedFields()) {
            tags.append(tags.isEmpty() ? "" : ",");
            tags.append("[" + field.tag() + ",\"" + HexFormat.of().formatHex(field.data()) + "\"]");
        }
        String unknown = tags.isEmpty() ? "" : ",\"unknownTaggedFields\":[" + tags + "]";
        return String.format("{\"message\":\"%s\",\"version\":%d,\"hex\":\"%s\",\"json\":%s%s}",
            name, version, HexFormat.of().formatHex(written.array()), toJson.invoke(null, message, version, true), unknown);
    }

    private Struct fill(Schema schema, boolean top) throws ReflectiveOperationException {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, field.def.type instanceof TaggedFields tagged ? tags(tagged, top) : value(field.def.type));
        }
        return struct;
    }

    private Object value(Type type) throws ReflectiveOperationException {
        if (type.isNullable() && (small || random.nextInt(4) == 0)) {
            return null;
        }
        if (type.isArray()) {
            Object[] items = new Object[small ? 0 : 1 + random.nextInt(3)];
            for (int i = 0; i < items.length; i++) {
                items[i] = value(type.arrayElementType().get());
            }
            return items;
        }
        if (type instanceof Schema schema) {
            return fill(schema, false);
        }
        return scalar(type);
    }

    private Object scalar(Type type) {
        String text = type.toString();
        switch (text.replace("COMPACT_", "").replace("NULLABLE_", "")) {
            case "BOOLEAN": return !small && random.nextBoolean();
            case "INT8": return (byte) number();
            case "INT16": return (short) number();
            case "UINT16": return (int) (number() & 0xffff);
            case "INT32": return (int) number();
            case "INT64": return number();
            case "UUID": return small ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
            case "STRING": return small ? "" : "topic-é-" + "x".repeat(random.nextInt(3) * 70) + random.nextInt(1000);
            case "BYTES": return small ? ByteBuffer.allocate(0) : ByteBuffer.wrap(bytes());
            case "RECORDS": return records();
            default: throw new IllegalArgumentException(text);
        }
    }

    private long number() {
        return small ? 0 : random.nextInt(3) == 0 ? NUMBERS[random.nextInt(NUMBERS.length)] : random.nextLong();
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(200)];
        random.nextBytes(bytes);
        return bytes;
    }

    // Produce 0 and 1 and Fetch 0 and 1 have messages without timestamps, the next versions messages with them.
    private MemoryRecords records() {
        byte magic = (byte) (version < 2 ? 0 : 1);
        long timestamp = magic == 0 ? -1 : 1_500_000_000_000L + random.nextInt();
        SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(3)];
        for (int i = 0; i < records.length; i++) {
            records[i] = new SimpleRecord(timestamp, random.nextBoolean() ? null : bytes(), bytes());
        }
        Compression compression = random.nextBoolean() ? Compression.NONE : Compression.gzip().build();
        return MemoryRecords.withRecords(magic, compression, records);
    }

    @SuppressWarnings("unchecked")
    private NavigableMap<Integer, Object> tags(TaggedFields type, boolean top) throws ReflectiveOperationException {
        NavigableMap<Integer, Object> tags = new TreeMap<>();
        if (small) {
            return tags;
        }
        java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        for (Map.Entry<Integer, Field> known : ((Map<Integer, Field>) fields.get(type)).entrySet()) {
            tags.put(known.getKey(), value(known.getValue().type));
        }
        // Only those of the message are in the vector.
        if (top) {
            tags.put(UNKNOWN_TAG, new RawTaggedField(UNKNOWN_TAG, bytes()));
        }
        return tags;
    }
}

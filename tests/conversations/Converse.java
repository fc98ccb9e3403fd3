import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.lang.reflect.*;
import java.net.*;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.zip.CRC32C;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

/** Plays scripts of raw requests against a broker and records, or compares, the normalised answers. docs/conversations.md describes them. */
public class Converse {
  static final ObjectMapper OM = new ObjectMapper();
  static final int ANSWER_MS = 40000, RETRY_MS = 15000, SCRIPT_MS = 120000;
  static final Map<String, ApiKeys> KEYS = new HashMap<>();
  static { for (ApiKeys k : ApiKeys.values()) KEYS.put(k.name, k); }

  // ---- messages -----------------------------------------------------------------------------------------------------
  static Class<?> converter(Class<?> c) throws Exception {
    Class<?> e = c.getEnclosingClass();
    return Class.forName(e == null ? c.getName() + "JsonConverter" : e.getName() + "JsonConverter$" + c.getSimpleName() + "JsonConverter");
  }
  static JsonNode toJson(Object m, short v) throws Exception {
    for (Method w : converter(m.getClass()).getMethods())
      if (w.getName().equals("write") && w.getParameterCount() == 3) return (JsonNode) call(w, m, v, true);
    throw new IllegalStateException();
  }
  static Object call(Method m, Object... a) throws Exception {
    try { return m.invoke(null, a); } catch (InvocationTargetException e) { throw e.getCause() instanceof Exception x ? x : e; }
  }
  /** Adds the schema defaults for the fields that a body leaves out. */
  static JsonNode fill(Class<?> c, JsonNode n, short v) throws Exception {
    if (!n.isObject()) return n;
    ObjectNode d = (ObjectNode) toJson(c.getConstructor().newInstance(), v);
    for (var it = n.fields(); it.hasNext(); ) {
      var e = it.next(); JsonNode x = e.getValue(); Field f;
      try { f = c.getDeclaredField(e.getKey()); } catch (NoSuchFieldException ex) { throw new IllegalArgumentException(c.getSimpleName() + " has no field " + e.getKey()); }
      if (x.isArray()) {
        Type t = f.getGenericType(); Class<?> el = null;
        if (t instanceof ParameterizedType p) { if (p.getActualTypeArguments()[0] instanceof Class<?> k) el = k; }
        else if (t instanceof Class<?> k && k.getGenericSuperclass() instanceof ParameterizedType p) el = (Class<?>) p.getActualTypeArguments()[0];
        if (el != null && Message.class.isAssignableFrom(el)) {
          ArrayNode a = OM.createArrayNode(); for (JsonNode y : x) a.add(fill(el, y, v)); x = a;
        }
      } else if (x.isObject()) x = fill(f.getType(), x, v);
      d.set(e.getKey(), x);
    }
    return d;
  }

  /** The checksum of a batch: of all bytes from its attributes on. */
  static int checksum(ByteBuffer batch) {
    ByteBuffer covered = batch.duplicate(); covered.position(21);
    CRC32C crc = new CRC32C(); crc.update(covered);
    return (int) crc.getValue();
  }

  static class Conn implements Closeable {
    Socket s; DataInputStream in; OutputStream out; int cid; String client; Deque<Object[]> sent = new ArrayDeque<>();
    Conn(String at, String client) throws IOException {
      int i = at.lastIndexOf(':'); s = new Socket(); s.connect(new InetSocketAddress(at.substring(0, i), Integer.parseInt(at.substring(i + 1))), 5000);
      s.setSoTimeout(ANSWER_MS); s.setTcpNoDelay(true); in = new DataInputStream(s.getInputStream()); out = s.getOutputStream(); this.client = client;
    }
    public void close() { try { s.close(); } catch (IOException e) { /* gone already */ } }
    void send(ApiKeys k, short v, short wire, Message m, short answerVersion) throws IOException {
      short hv = k.requestHeaderVersion(v); ObjectSerializationCache c = new ObjectSerializationCache();
      RequestHeaderData h = new RequestHeaderData().setRequestApiKey(k.id).setRequestApiVersion(wire).setCorrelationId(++cid).setClientId(client);
      int n = h.size(c, hv) + m.size(c, v); ByteBuffer b = ByteBuffer.allocate(4 + n); b.putInt(n);
      ByteBufferAccessor a = new ByteBufferAccessor(b); h.write(a, c, hv); m.write(a, c, v);
      sent.add(new Object[] {k, answerVersion, System.nanoTime(), cid}); out.write(b.array(), 0, b.position()); out.flush();
    }
    Message receive() throws Exception {
      Object[] p = sent.remove(); ApiKeys k = (ApiKeys) p[0]; short v = (short) p[1]; took = 0;
      byte[] r = new byte[in.readInt()]; in.readFully(r); took = (System.nanoTime() - (long) p[2]) / 1000000;
      ByteBufferAccessor a = new ByteBufferAccessor(ByteBuffer.wrap(r)); ResponseHeaderData h = new ResponseHeaderData(a, k.responseHeaderVersion(v));
      if (h.correlationId() != (int) p[3]) throw new IOException("correlation id " + h.correlationId() + " for request " + p[3]);
      Message m = (Message) Class.forName("org.apache.kafka.common.message." + k.name + "ResponseData").getConstructor(Readable.class, short.class).newInstance(a, v);
      if (a.remaining() > 0) throw new IOException(a.remaining() + " bytes left over after " + k.name + " v" + v);
      version = v; return m;
    }
    long took; short version;
  }

  // ---- one run of one script ----------------------------------------------------------------------------------------
  final Map<String, String> boot; final JsonNode script; final String at;
  final Map<String, JsonNode> vars = new LinkedHashMap<>(); final Map<String, Conn> conns = new HashMap<>(); final Map<String, String> clients = new HashMap<>();
  final Map<Integer, String> nodes = new HashMap<>(); final List<JsonNode> answers = new ArrayList<>(); final List<String> labels = new ArrayList<>();
  final long end = System.nanoTime() + SCRIPT_MS * 1000000L; final Map<String, JsonNode> asyncs = new HashMap<>();

  Converse(Map<String, String> boot, JsonNode script) {
    this.boot = boot; this.script = script; this.at = boot.get(script.path("broker").asText("common"));
    vars.put("run", TextNode.valueOf(Long.toString(Math.abs(Uuid.randomUuid().getMostSignificantBits()), 36).substring(0, 8)));
  }
  Conn conn(String name) throws IOException {
    Conn c = conns.get(name);
    if (c == null) conns.put(name, c = new Conn(at, clients.getOrDefault(name, "client-" + name)));
    return c;
  }
  static final Pattern VAR = Pattern.compile("\\$\\{([^}]+)\\}");
  JsonNode var(String name) {
    if (name.startsWith("uuid:")) return vars.computeIfAbsent(name.substring(5), k -> TextNode.valueOf(Uuid.randomUuid().toString()));
    if (name.equals("now")) return LongNode.valueOf(System.currentTimeMillis());
    Matcher m = Pattern.compile("(.+?)([+-]\\d+)").matcher(name); JsonNode n = vars.get(name);
    if (m.matches() && m.group(1).equals("now")) return LongNode.valueOf(System.currentTimeMillis() + Long.parseLong(m.group(2)));
    if (n == null && m.matches() && vars.containsKey(m.group(1))) n = LongNode.valueOf(vars.get(m.group(1)).asLong() + Long.parseLong(m.group(2)));
    if (n == null) throw new IllegalArgumentException("no variable " + name);
    return n;
  }
  JsonNode subst(JsonNode n) {
    if (n.isTextual()) {
      Matcher m = VAR.matcher(n.asText());
      if (m.matches()) return var(m.group(1));
      StringBuilder sb = new StringBuilder(); m.reset();
      while (m.find()) m.appendReplacement(sb, Matcher.quoteReplacement(var(m.group(1)).asText()));
      return TextNode.valueOf(m.appendTail(sb).toString());
    }
    if (n.isArray()) { ArrayNode a = OM.createArrayNode(); for (JsonNode x : n) a.add(subst(x)); return a; }
    if (n.isObject()) { ObjectNode o = OM.createObjectNode(); n.fields().forEachRemaining(e -> o.set(e.getKey(), subst(e.getValue()))); return o; }
    return n;
  }
  /** Decoded JSON of an answer: record bytes become lists of [baseOffset, lastOffset, codec, isControl, isTransactional]. */
  static JsonNode decode(Message m, short v) throws Exception {
    JsonNode j = toJson(m, v);
    if (m instanceof FetchResponseData f) { int i = 0; for (var t : f.responses()) { int k = 0; for (var p : t.partitions()) records(j, i, k++, p.records()); i++; } }
    if (m instanceof ShareFetchResponseData f) { int i = 0; for (var t : f.responses()) { int k = 0; for (var p : t.partitions()) records(j, i, k++, p.records()); i++; } }
    return j;
  }
  static void records(JsonNode j, int t, int p, BaseRecords r) {
    ObjectNode o = (ObjectNode) j.get("responses").get(t).get("partitions").get(p); o.remove("recordsSizeInBytes"); ArrayNode a = o.putArray("records");
    if (r instanceof MemoryRecords mr) for (RecordBatch b : mr.batches())
      a.addArray().add(b.baseOffset()).add(b.lastOffset()).add(b.compressionType().name).add(b.isControlBatch()).add(b.isTransactional());
  }

  interface Visit { void at(JsonNode parent, String key, JsonNode value); }
  static JsonNode child(JsonNode n, String k) { return n.isArray() ? (k.matches("\\d+") ? n.get(Integer.parseInt(k)) : null) : n.get(k); }
  static void walk(JsonNode n, String[] p, int i, Visit v) {
    if (n == null) return;
    List<String> keys = new ArrayList<>();
    if (p[i].equals("*")) { if (n.isArray()) for (int k = 0; k < n.size(); k++) keys.add("" + k); else n.fieldNames().forEachRemaining(keys::add); }
    else keys.add(p[i]);
    for (String k : keys) { JsonNode c = child(n, k); if (c == null) continue; if (i == p.length - 1) v.at(n, k, c); else walk(c, p, i + 1, v); }
  }
  static void set(JsonNode parent, String k, JsonNode v) { if (parent.isArray()) ((ArrayNode) parent).set(Integer.parseInt(k), v); else ((ObjectNode) parent).set(k, v); }
  static void visit(JsonNode n, String pointer, Visit v) { walk(n, pointer.substring(1).split("/"), 0, v); }
  static boolean hasCode(JsonNode n, Set<Integer> codes) {
    if (n.isObject()) for (var it = n.fields(); it.hasNext(); ) { var e = it.next(); if (e.getKey().toLowerCase().endsWith("errorcode") && codes.contains(e.getValue().asInt())) return true; }
    for (JsonNode x : n) if (x.isContainerNode() && hasCode(x, codes)) return true;
    return false;
  }
  boolean reached(JsonNode answer, JsonNode until) {
    for (var it = until.fields(); it.hasNext(); ) {
      var e = it.next(); JsonNode have = answer.at(e.getKey()), want = subst(e.getValue());
      if (want.isObject() && want.has("not")) { if (have.isMissingNode() || have.equals(want.get("not")) || have.asText().equals(want.get("not").asText()) && have.isNull() == want.get("not").isNull()) return false; }
      else if (want.isObject() && want.has("size")) { if (have.size() != want.get("size").asInt()) return false; }
      else if (have.isMissingNode() || have.isNull() != want.isNull() || !have.asText().equals(want.asText()) || have.isContainerNode() && !have.equals(want)) return false;
    }
    return true;
  }

  // ---- normalisation ------------------------------------------------------------------------------------------------
  static final Set<String> NODE = Set.of("nodeId", "brokerId", "leaderId", "controllerId", "replicaNodes", "isrNodes", "offlineReplicas", "replicas", "isr", "preferredReadReplica");
  static final Set<String> ANY = Set.of("throttleTimeMs", "transactionStartTimeMs", "clusterId", "brokerEpoch", "issueTimestampMs", "finalizedFeaturesEpoch");
  static final Set<String> ORDERED = Set.of("acquiredRecords", "abortedTransactions", "records", "stateBatches", "endOffsets");
  static final Pattern GENERATED = Pattern.compile("(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), UUID22 = Pattern.compile("[A-Za-z0-9_-]{22}");
  JsonNode normal(String key, JsonNode n, JsonNode owner, boolean ordered) {
    if (n.isObject()) {
      ObjectNode o = OM.createObjectNode(); TreeMap<String, JsonNode> fields = new TreeMap<>(); n.fields().forEachRemaining(e -> fields.put(e.getKey(), e.getValue()));
      boolean leader = !key.equals("currentLeader") || owner == null || Set.of(6, 74, 75).contains(owner.path("errorCode").asInt());
      fields.forEach((k, v) -> o.set(k, !leader ? v : normal(k, v, n, ordered)));
      return o;
    }
    if (n.isArray()) {
      List<JsonNode> l = new ArrayList<>(); for (JsonNode x : n) l.add(normal(key, x, owner, ordered));
      if (!ordered && !ORDERED.contains(key) && (l.isEmpty() || !l.get(0).isArray())) l.sort(Comparator.comparing(JsonNode::toString));
      ArrayNode a = OM.createArrayNode(); l.forEach(a::add); return a;
    }
    if (n.isNull()) return n;
    String k = key.toLowerCase();
    if (ANY.contains(key)) return TextNode.valueOf("*");
    if (k.endsWith("errormessage") || k.endsWith("statusdetail")) return TextNode.valueOf(n.asText().isEmpty() ? "" : "<text>");
    if (key.equals("host") || key.equals("clientHost")) return n.asText().isEmpty() ? n : TextNode.valueOf("<host>");
    if (key.equals("port")) return n.asInt() < 0 ? n : TextNode.valueOf("<port>");
    if (n.isNumber()) {
      if (NODE.contains(key)) return nodes.containsKey(n.asInt()) ? TextNode.valueOf(nodes.get(n.asInt())) : n;
      if (key.equals("producerId") && n.asLong() >= 0) {
        for (var e : vars.entrySet()) if (e.getValue().isNumber() && e.getValue().asLong() == n.asLong() && e.getKey().startsWith("pid") && !e.getKey().endsWith("_e")) return TextNode.valueOf("${" + e.getKey() + "}");
        return n.asLong() == 0 ? n : TextNode.valueOf("<producerId>");
      }
      if (key.equals("logAppendTimeMs")) return n.asLong() < 0 ? n : TextNode.valueOf("<time>");
      return n;
    }
    if (!n.isTextual()) return n;
    String t = n.asText();
    for (var e : vars.entrySet()) if (e.getValue().isTextual() && !e.getValue().asText().isEmpty() && (t.equals(e.getValue().asText()) && !e.getValue().asText().equals("range") || e.getValue().asText().length() >= 20 || e.getKey().equals("run")))
      t = t.replace(e.getValue().asText(), "${" + e.getKey() + "}");
    Matcher g = GENERATED.matcher(t);
    if (g.matches()) return TextNode.valueOf(g.group(1) + "-<uuid>");
    if ((key.equals("topicId") || k.endsWith("memberid") || key.equals("leader")) && UUID22.matcher(t).matches() && !t.equals("AAAAAAAAAAAAAAAAAAAAAA")) return TextNode.valueOf("<uuid>");
    return TextNode.valueOf(t);
  }
  JsonNode finish(JsonNode step, JsonNode raw, long took) {
    JsonNode j = raw.deepCopy();
    step.path("keep").fields().forEachRemaining(e -> { String w = subst(e.getValue()).asText(); visit(j, e.getKey(), (par, k, a) -> { if (a.isArray()) for (var it = a.iterator(); it.hasNext(); ) if (!it.next().toString().contains(w)) it.remove(); }); });
    JsonNode n = normal("", j, null, step.path("ordered").asBoolean());
    for (JsonNode p : step.path("drop")) visit(n, p.asText(), (par, k, v) -> { if (par.isObject()) ((ObjectNode) par).remove(k); });
    for (JsonNode p : step.path("counts")) visit(n, p.asText(), (par, k, v) -> set(par, k, IntNode.valueOf(v.size())));
    for (JsonNode p : step.path("mask")) visit(n, p.asText(), (par, k, v) -> set(par, k, TextNode.valueOf("*")));
    if (step.path("mask").size() + step.path("counts").size() + step.path("drop").size() > 0 && !step.path("ordered").asBoolean()) n = resort("", n);
    if (step.has("collect")) {
      ObjectNode o = OM.createObjectNode(); JsonNode src = n;
      step.get("collect").fields().forEachRemaining(e -> {
        List<JsonNode> l = new ArrayList<>(); visit(src, e.getValue().asText(), (par, k, v) -> l.add(v)); if (!step.path("ordered").asBoolean()) l.sort(Comparator.comparing(JsonNode::toString));
        ArrayNode a = o.putArray(e.getKey()); l.forEach(a::add);
      });
      n = o;
    }
    if (step.has("elapsed")) {
      long lo = step.get("elapsed").get(0).asLong(), hi = step.get("elapsed").get(1).asLong();
      ((ObjectNode) n).put("elapsed", took >= lo && took <= hi ? "in time" : took + " ms, not in " + lo + "-" + hi);
    }
    return n;
  }
  static JsonNode resort(String key, JsonNode n) {
    if (n.isObject()) { ObjectNode o = OM.createObjectNode(); n.fields().forEachRemaining(e -> o.set(e.getKey(), resort(e.getKey(), e.getValue()))); return o; }
    if (!n.isArray()) return n;
    List<JsonNode> l = new ArrayList<>(); for (JsonNode x : n) l.add(resort(key, x));
    if (!ORDERED.contains(key) && (l.isEmpty() || !l.get(0).isArray())) l.sort(Comparator.comparing(JsonNode::toString));
    ArrayNode a = OM.createArrayNode(); l.forEach(a::add); return a;
  }

  // ---- steps --------------------------------------------------------------------------------------------------------
  JsonNode receive(Conn c, JsonNode step) throws Exception {
    try { return decode(c.receive(), c.version); }
    catch (EOFException e) { return OM.createObjectNode().put("closed", true); }
    catch (SocketTimeoutException e) { return OM.createObjectNode().put("timeout", true); }
    catch (SocketException e) { return OM.createObjectNode().put("closed", true); }
  }
  void answer(JsonNode step, String label, JsonNode raw, long took) {
    step.path("save").fields().forEachRemaining(e -> { JsonNode v = raw.at(e.getValue().asText()); if (!v.isMissingNode()) vars.put(e.getKey(), v); });
    if (!step.path("setup").asBoolean()) { answers.add(finish(step, raw, took)); labels.add(label); }
    if (raw.has("closed")) { String n = step.path("conn").asText(step.path("await").asText("a")); Conn c = conns.remove(n); if (c != null) c.close(); }
  }
  void exchange(JsonNode step, String label, ApiKeys k, short v, short wire, short av, Callable<Message> build, Set<Integer> transientCodes) throws Exception {
    String cn = step.path("conn").asText("a"); long stop = System.nanoTime() + RETRY_MS * 1000000L;
    for (int i = 0; ; i++) {
      if (System.nanoTime() > end) throw new IOException("script took too long");
      Conn c = conn(cn); c.send(k, v, wire, build.call(), av);
      if (step.path("noanswer").asBoolean()) { c.sent.removeLast(); return; }
      if (step.path("async").asBoolean()) { asyncs.put(cn, step); return; }
      JsonNode raw = receive(c, step); boolean late = System.nanoTime() > stop;
      if (step.has("until")) {
        step.path("save").fields().forEachRemaining(e -> { JsonNode x = raw.at(e.getValue().asText()); if (!x.isMissingNode() && !x.isNull()) vars.put(e.getKey(), x); });
        if (!late && !raw.has("closed") && !reached(raw, step.get("until"))) { Thread.sleep(step.path("every").asInt(100)); continue; }
      } else if (!late && hasCode(raw, transientCodes)) { Thread.sleep(100); continue; }
      answer(step, label, raw, c.took); return;
    }
  }
  Set<Integer> codes(JsonNode step, Integer... dflt) {
    if (!step.has("transient")) return Set.of(dflt);
    Set<Integer> s = new HashSet<>(); for (JsonNode x : step.get("transient")) s.add(x.asInt()); return s;
  }
  void request(JsonNode step) throws Exception {
    ApiKeys k = KEYS.get(step.get("api").asText()); if (k == null) throw new IllegalArgumentException("no api " + step.get("api"));
    short v = (short) step.get("version").asInt(), wire = (short) step.path("wireVersion").asInt(v), av = (short) step.path("answerVersion").asInt(v);
    Class<?> cls = Class.forName("org.apache.kafka.common.message." + k.name + "RequestData"); Method read = converter(cls).getMethod("read", JsonNode.class, short.class);
    exchange(step, k.name, k, v, wire, av, () -> (Message) call(read, fill(cls, subst(step.path("body").isMissingNode() ? OM.createObjectNode() : step.get("body")), v), v), codes(step, 14, 15, 16, 51));
  }
  MemoryRecords batch(JsonNode b) {
    int n = b.path("records").asInt(1), size = b.path("size").asInt(10); short epoch = (short) b.path("producerEpoch").asInt(-1); long ts = b.has("timestamp") ? b.get("timestamp").asLong() : System.currentTimeMillis();
    boolean keyed = b.has("key"); byte magic = (byte) b.path("magic").asInt(2);
    MemoryRecordsBuilder m = MemoryRecords.builder(ByteBuffer.allocate(512), magic, Compression.of(b.path("codec").asText("none")).build(), TimestampType.CREATE_TIME, b.path("baseOffset").asLong(0), -1L,
      b.path("producerId").asLong(-1), b.path("producerId").asLong(-1) < 0 ? epoch : (short) Math.max(0, epoch), b.path("baseSequence").asInt(-1), b.path("transactional").asBoolean(), b.path("control").asBoolean(), -1);
    for (int i = 0; i < n; i++) {
      byte[] value = new byte[size]; Arrays.fill(value, (byte) ('a' + i % 26));
      if (b.path("control").asBoolean()) m.appendEndTxnMarker(ts, new EndTransactionMarker(ControlRecordType.COMMIT, 0));
      else m.append(ts + (b.path("step").asLong(0)) * i, keyed ? b.get("key").asText().getBytes(StandardCharsets.UTF_8) : null, b.path("tombstone").asBoolean() ? null : value);
    }
    MemoryRecords r = m.build();
    if (b.path("producerId").asLong(-1) >= 0 && epoch < 0) { // Kafka's builder writes no such batch; an idempotent producer that counts backwards does.
      ByteBuffer d = r.buffer().duplicate(); d.putShort(51, epoch); d.putInt(17, checksum(d));
    }
    if (b.path("corrupt").asBoolean()) { ByteBuffer d = r.buffer().duplicate(); d.put(17, (byte) (d.get(17) ^ 0x55)); }
    return r;
  }
  void produce(JsonNode raw) throws Exception {
    JsonNode p = subst(raw.get("produce")), batches = p.get("batches"); short v = (short) p.path("version").asInt(11); boolean together = p.path("together").asBoolean();
    ObjectNode step = ((ObjectNode) raw).deepCopy(); step.remove("produce"); if (p.has("conn")) step.set("conn", p.get("conn"));
    if (p.path("acks").asInt(-1) == 0) step.put("noanswer", true);
    for (int i = 0; i < batches.size(); i++) {
      List<MemoryRecords> l = new ArrayList<>(); if (together) { for (JsonNode b : batches) l.add(batch(b)); i = batches.size(); } else l.add(batch(batches.get(i)));
      int size = 0; for (MemoryRecords r : l) size += r.sizeInBytes(); ByteBuffer all = ByteBuffer.allocate(size); l.forEach(r -> all.put(r.buffer().duplicate())); all.flip();
      exchange(step, "Produce", ApiKeys.PRODUCE, v, v, v, () -> {
        var d = new ProduceRequestData().setAcks((short) p.path("acks").asInt(-1)).setTimeoutMs(p.path("timeoutMs").asInt(10000)).setTransactionalId(p.hasNonNull("transactionalId") ? p.get("transactionalId").asText() : null);
        var t = new ProduceRequestData.TopicProduceData(); if (v >= 13) t.setTopicId(Uuid.fromString(p.get("topicId").asText())); else t.setName(p.get("topic").asText());
        t.partitionData().add(new ProduceRequestData.PartitionProduceData().setIndex(p.path("partition").asInt()).setRecords(p.path("null").asBoolean() ? null : MemoryRecords.readableRecords(all.duplicate())));
        d.topicData().add(t); return d;
      }, codes(step, 6, 14, 15, 16, 51));
    }
  }
  void step(JsonNode s) throws Exception {
    if (s.has("api")) request(s);
    else if (s.has("produce")) produce(s);
    else if (s.has("sleep_ms")) Thread.sleep(s.get("sleep_ms").asLong());
    else if (s.has("connect")) { String n = s.get("connect").asText(); clients.put(n, subst(s.path("clientId").isMissingNode() ? TextNode.valueOf("client-" + n) : s.get("clientId")).asText()); Conn c = conns.remove(n); if (c != null) c.close(); conn(n); }
    else if (s.has("close")) { Conn c = conns.remove(s.get("close").asText()); if (c != null) c.close(); }
    else if (s.has("await")) { String n = s.get("await").asText(); Conn c = conn(n); JsonNode q = asyncs.remove(n); ObjectNode st = ((ObjectNode) q).deepCopy(); if (s.has("elapsed")) st.set("elapsed", s.get("elapsed")); JsonNode raw = receive(c, st); answer(st, q.path("api").asText("Produce"), raw, c.took); }
    else throw new IllegalArgumentException("unknown step " + s);
  }
  void warm(Conn c, ApiKeys k, short v, Message m) throws Exception {
    for (long stop = System.nanoTime() + 20000000000L; System.nanoTime() < stop; Thread.sleep(100)) { c.send(k, v, v, m, v); if (!hasCode(decode(c.receive(), v), Set.of(14, 15, 16))) return; }
  }
  List<JsonNode> play() throws Exception {
    try {
      try (Conn c = new Conn(at, "warm-up")) {
        c.send(ApiKeys.METADATA, (short) 12, (short) 12, new MetadataRequestData().setTopics(List.of()), (short) 12);
        List<Integer> ids = new ArrayList<>(); ((MetadataResponseData) c.receive()).brokers().forEach(b -> ids.add(b.nodeId())); Collections.sort(ids); for (int i = 0; i < ids.size(); i++) nodes.put(ids.get(i), "<node" + i + ">");
        synchronized (Converse.class) { if (WARM.add(at)) {
          var f = new FindCoordinatorRequestData(); for (int i = 0; i < 20; i++) f.coordinatorKeys().add("warm-" + i); warm(c, ApiKeys.FIND_COORDINATOR, (short) 6, f);
          warm(c, ApiKeys.FIND_COORDINATOR, (short) 6, f.duplicate().setKeyType((byte) 1)); f.coordinatorKeys().replaceAll(x -> x + ":AAAAAAAAAAAAAAAAAAAAAQ:0"); warm(c, ApiKeys.FIND_COORDINATOR, (short) 6, f.setKeyType((byte) 2));
          for (int i = 0; i < 20; i++) warm(c, ApiKeys.DESCRIBE_GROUPS, (short) 5, new DescribeGroupsRequestData().setGroups(List.of("warm-" + i)));
          for (int i = 0; i < 20; i++) warm(c, ApiKeys.INIT_PRODUCER_ID, (short) 4, new InitProducerIdRequestData().setTransactionalId("warm-" + i).setTransactionTimeoutMs(60000));
        } }
      }
      int i = 0;
      for (JsonNode s : script.get("steps")) { try { step(s); } catch (Exception e) { throw new Exception("step " + i + ": " + e, e); } i++; }
      return answers;
    } finally { conns.values().forEach(Conn::close); }
  }
  static final Set<String> WARM = ConcurrentHashMap.newKeySet();

  // ---- command line -------------------------------------------------------------------------------------------------
  static String diff(JsonNode want, JsonNode got, String at) {
    if (want.equals(got)) return null;
    if (want.isObject() && got.isObject()) {
      TreeSet<String> k = new TreeSet<>(); want.fieldNames().forEachRemaining(k::add); got.fieldNames().forEachRemaining(k::add);
      for (String f : k) { String d = diff(want.has(f) ? want.get(f) : MissingNode.getInstance(), got.has(f) ? got.get(f) : MissingNode.getInstance(), at + "/" + f); if (d != null) return d; }
    } else if (want.isArray() && got.isArray()) {
      for (int i = 0; i < Math.max(want.size(), got.size()); i++) { String d = diff(i < want.size() ? want.get(i) : MissingNode.getInstance(), i < got.size() ? got.get(i) : MissingNode.getInstance(), at + "/" + i); if (d != null) return d; }
    }
    return at + ": expected " + (want.isMissingNode() ? "nothing" : want) + ", got " + (got.isMissingNode() ? "nothing" : got);
  }
  static JsonNode tidy(JsonNode n) throws IOException { return OM.readTree(OM.writeValueAsString(n)); }
  /** PASS, FAIL ... or SKIP ... */
  static String one(String mode, Map<String, String> boot, Path f) {
    String name = f.getFileName().toString().replace(".json", ""); Converse c = null;
    try {
      JsonNode s = OM.readTree(f.toFile()); String b = s.path("broker").asText("common");
      if (!boot.containsKey(b)) return "SKIP " + name + " (needs the broker \"" + b + "\")";
      c = new Converse(boot, s); Path x = f.resolveSibling(name + ".expected.json"); long t = System.nanoTime();
      List<JsonNode> got = c.play(); String ms = " (" + (System.nanoTime() - t) / 1000000 + " ms)";
      if (mode.equals("record")) {
        StringBuilder sb = new StringBuilder("[\n"); for (int i = 0; i < got.size(); i++) sb.append(OM.writeValueAsString(got.get(i))).append(i < got.size() - 1 ? ",\n" : "\n");
        Files.writeString(x, sb.append("]\n")); return "PASS " + name + ": " + got.size() + " answers recorded" + ms;
      }
      JsonNode want = OM.readTree(x.toFile());
      for (int i = 0; i < Math.max(want.size(), got.size()); i++) {
        if (i >= got.size() || i >= want.size()) return "FAIL " + name + ": " + got.size() + " answers, " + want.size() + " expected";
        String d = diff(want.get(i), tidy(got.get(i)), "");
        if (d != null) return "FAIL " + name + ": answer " + i + " (" + c.labels.get(i) + ") at " + d;
      }
      return "PASS " + name + ms;
    } catch (Throwable e) {
      return "FAIL " + name + ": " + e.getMessage() + (c != null && !c.answers.isEmpty() ? " after answer " + (c.answers.size() - 1) + " " + c.answers.get(c.answers.size() - 1) : "");
    }
  }
  public static void main(String[] a) throws Exception {
    if (a.length < 3 || !Set.of("record", "check").contains(a[0])) { System.err.println("Converse record|check [common=]HOST:PORT[,defaults=HOST:PORT] [-j N] FILE|FOLDER..."); System.exit(2); }
    Map<String, String> boot = new HashMap<>(); for (String b : a[1].split(",")) boot.put(b.contains("=") ? b.substring(0, b.indexOf('=')) : "common", b.substring(b.indexOf('=') + 1));
    int j = 1; List<Path> files = new ArrayList<>();
    for (int i = 2; i < a.length; i++) {
      if (a[i].equals("-j")) { j = Integer.parseInt(a[++i]); continue; }
      Path p = Path.of(a[i]); if (Files.isDirectory(p)) try (var w = Files.walk(p)) { w.filter(x -> x.toString().endsWith(".json") && !x.toString().endsWith(".expected.json")).sorted().forEach(files::add); } else if (!a[i].endsWith(".expected.json")) files.add(p);
    }
    ExecutorService pool = Executors.newFixedThreadPool(j); List<Future<String>> l = new ArrayList<>();
    for (Path f : files) l.add(pool.submit(() -> one(a[0], boot, f)));
    int ok = 0, bad = 0, skip = 0;
    for (Future<String> f : l) { String r = f.get(); System.out.println(r); if (r.startsWith("PASS")) ok++; else if (r.startsWith("FAIL")) bad++; else skip++; }
    pool.shutdown(); System.out.println(ok + " passed, " + bad + " failed" + (skip > 0 ? ", " + skip + " skipped" : ""));
    System.exit(bad == 0 ? 0 : 1);
  }
}

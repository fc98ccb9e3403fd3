/* The type SummaryReader: what the one-line summary of a message is made of, read from its bytes
   (kwire/capture/columnar/summary_reader.py has the rules). */
#include "plan.h"

/* Limits of what is read here; a message above one of them is left to the Python code. */
#define KEY_MAX 1024
#define TEXT_MAX 512
#define KINDS_MAX 8

#define HEADER_SIZE 61
#define PREFIX_SIZE 12
#define CODECS 8
#define RANGES_SHOWN 3

/* What a field is for; kwire/capture/columnar/summary_reader.py has the same numbers. */
enum Role {
    ROLE_NONE,
    ROLE_KEY,
    ROLE_RECORDS,
    ROLE_RANGE_FIRST,
    ROLE_RANGE_LAST,
    ROLE_RANGE_COUNT,
    ROLE_ACK_FIRST,
    ROLE_ACK_LAST,
    ROLE_ACK_TYPES,
    ROLE_EPOCH,
    ROLE_WAIT,
    ROLE_COUNT
};

struct SummaryStruct;

/* A field in the order of the wire; `skipped` are the bytes of the fields of fixed size before it. */
typedef struct {
    uint8_t kind; /* As in plan.h. */
    uint8_t is_array;
    uint8_t nullable;
    uint8_t flexible;
    uint8_t role;
    Py_ssize_t skipped;
    struct SummaryStruct *inner;
} SummaryField;

typedef struct SummaryStruct {
    uint8_t flexible;
    Py_ssize_t count;
    Py_ssize_t skipped; /* Behind the last field. */
    SummaryField *fields;
} SummaryStruct;

typedef struct {
    PyObject_HEAD
    PyObject *codecs; /* The names of codecs by their numbers, as bytes; empty for none. */
    PyObject *acks;   /* The names of acknowledgement types by their numbers, as bytes. */
    PyObject *empty;
    SummaryStruct *root;
} SummaryReader;

/* What was found in a message. */
typedef struct {
    uint8_t key[KEY_MAX];
    Py_ssize_t key_size;
    int64_t record_count, record_bytes;
    int codec; /* Of compressed records; 0 for none. */
    int64_t first, last;
    Py_ssize_t range_count;
    char ranges[TEXT_MAX];
    int ranges_size;
    int8_t kinds[KINDS_MAX];
    int64_t kind_counts[KINDS_MAX];
    int kind_count;
    int32_t epoch, wait;
    int has_epoch;
} Found;

static int find_in_struct(Cursor *cursor, Found *found, const SummaryStruct *part);

static int add_key(Found *found, const uint8_t *data, Py_ssize_t size) {
    if (size > KEY_MAX - found->key_size) {
        return -1;
    }
    memcpy(found->key + found->key_size, data, (size_t)size);
    found->key_size += size;
    return 0;
}

/* Record batches of the usual kind, as kwire.payload.total_records counts them. */
static int count_records(Found *found, const uint8_t *data, Py_ssize_t size) {
    Py_ssize_t at = 0;
    int codec = -1;
    while (size - at >= HEADER_SIZE) {
        const uint8_t *p = data + at;
        int64_t base = (int64_t)load_u64(p);
        int32_t length = (int32_t)load_u32(p + 8), delta = (int32_t)load_u32(p + 23), count = (int32_t)load_u32(p + 57);
        int label = p[22] & 7;
        if (p[16] != 2 || length < HEADER_SIZE - PREFIX_SIZE || length > size - at - PREFIX_SIZE || delta < 0 ||
            count < 0 || base > INT64_MAX - delta || (codec >= 0 && codec != label)) {
            return -1;
        }
        at += PREFIX_SIZE + length;
        codec = label;
        found->record_count += count;
    }
    if (at != size || (codec > 0 && found->codec > 0 && found->codec != codec)) {
        return -1;
    }
    found->codec = codec > 0 ? codec : found->codec;
    found->record_bytes += size;
    return 0;
}

static int add_range(Found *found, int deliveries) {
    if (found->range_count++ >= RANGES_SHOWN) {
        return 0;
    }
    char *place = found->ranges + found->ranges_size;
    size_t left = (size_t)(TEXT_MAX - found->ranges_size);
    const char *before = found->range_count > 1 ? ", " : "acquired ";
    found->ranges_size += deliveries > 1 ? snprintf(place, left, "%s%lld-%lld x%d", before, (long long)found->first,
                                                    (long long)found->last, deliveries)
                                         : snprintf(place, left, "%s%lld-%lld", before, (long long)found->first,
                                                    (long long)found->last);
    return 0;
}

static int add_acknowledged(Found *found, int8_t kind, int64_t count) {
    int index = 0;
    while (index < found->kind_count && found->kinds[index] != kind) {
        index++;
    }
    if (index == found->kind_count) {
        if (index == KINDS_MAX) {
            return -1;
        }
        found->kinds[index] = kind;
        found->kind_counts[index] = 0;
        found->kind_count++;
    }
    found->kind_counts[index] += count;
    return 0;
}

/* A single type is that of the whole range; else each offset has its own. */
static int add_acknowledgements(Found *found, const uint8_t *types, Py_ssize_t count) {
    /* Far from overflow: sums of such ranges stay in 64 bits, as a message has fewer than 2^31 of them. */
    if (count == 1) {
        if (found->first < 0 || found->last < found->first || found->last - found->first >= INT32_MAX) {
            return -1;
        }
        return add_acknowledged(found, (int8_t)types[0], found->last - found->first + 1);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (add_acknowledged(found, (int8_t)types[i], 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static void take_number(Found *found, int role, const uint8_t *p) {
    switch (role) {
    case ROLE_RANGE_FIRST:
    case ROLE_ACK_FIRST:
        found->first = (int64_t)load_u64(p);
        break;
    case ROLE_RANGE_LAST:
    case ROLE_ACK_LAST:
        found->last = (int64_t)load_u64(p);
        break;
    case ROLE_EPOCH:
        found->epoch = (int32_t)load_u32(p);
        found->has_epoch = 1;
        break;
    case ROLE_WAIT:
        found->wait = (int32_t)load_u32(p);
        break;
    default:
        break;
    }
}

static int find_in_fixed(Cursor *cursor, Found *found, const SummaryField *field) {
    Py_ssize_t size = fixed_size(field->kind);
    const uint8_t *p = cursor->data + cursor->at;
    if (cursor->end - cursor->at < size) {
        return -1;
    }
    cursor->at += size;
    if (field->role == ROLE_KEY) {
        return add_key(found, p, size);
    }
    if (field->role == ROLE_RANGE_COUNT) {
        return add_range(found, (int16_t)load_u16(p));
    }
    take_number(found, field->role, p);
    return 0;
}

/* A string, bytes or records. */
static int find_in_sized(Cursor *cursor, Found *found, const SummaryField *field, int is_nullable) {
    Py_ssize_t begin = cursor->at;
    Py_ssize_t size = read_length(cursor, field->flexible, field->kind == KIND_STRING);
    if (size < -1 || (size < 0 && !is_nullable) || cursor->at > cursor->end || size > cursor->end - cursor->at) {
        return -1;
    }
    size = size < 0 ? 0 : size;
    const uint8_t *data = cursor->data + cursor->at;
    cursor->at += size;
    if (field->role == ROLE_KEY) {
        return add_key(found, cursor->data + begin, cursor->at - begin);
    }
    return field->role == ROLE_RECORDS && size > 0 ? count_records(found, data, size) : 0;
}

static int find_in_array(Cursor *cursor, Found *found, const SummaryField *field) {
    Py_ssize_t begin = cursor->at;
    Py_ssize_t count = read_length(cursor, field->flexible, 0);
    /* Each element has a byte at least. */
    if (count < -1 || (count < 0 && !field->nullable) || cursor->at > cursor->end || count > cursor->end - cursor->at) {
        return -1;
    }
    if (field->role == ROLE_KEY && add_key(found, cursor->data + begin, cursor->at - begin) < 0) {
        return -1;
    }
    count = count < 0 ? 0 : count;
    if (field->kind < KIND_STRING) {
        Py_ssize_t size = fixed_size(field->kind);
        const uint8_t *data = cursor->data + cursor->at;
        if (count > (cursor->end - cursor->at) / size) {
            return -1;
        }
        cursor->at += count * size;
        return field->role == ROLE_KEY         ? add_key(found, data, count * size)
               : field->role == ROLE_ACK_TYPES ? add_acknowledgements(found, data, count)
                                               : 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int status = field->kind == KIND_STRUCT ? find_in_struct(cursor, found, field->inner)
                                                : find_in_sized(cursor, found, field, 0);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

static int find_in_nested(Cursor *cursor, Found *found, const SummaryField *field) {
    if (field->nullable) {
        const uint8_t *marker = cursor->data + cursor->at;
        if (cursor->at >= cursor->end || (*marker != 1 && *marker != 255)) {
            return -1;
        }
        cursor->at++;
        if (field->role == ROLE_KEY && add_key(found, marker, 1) < 0) {
            return -1;
        }
        if (*marker == 255) {
            return 0;
        }
    }
    return find_in_struct(cursor, found, field->inner);
}

/* -1 when only the Python code can do it; never with an exception. */
static int find_in_struct(Cursor *cursor, Found *found, const SummaryStruct *part) {
    for (Py_ssize_t i = 0; i < part->count; i++) {
        const SummaryField *field = &part->fields[i];
        if (cursor->end - cursor->at < field->skipped) {
            return -1;
        }
        cursor->at += field->skipped;
        int status = field->is_array              ? find_in_array(cursor, found, field)
                     : field->kind == KIND_STRUCT ? find_in_nested(cursor, found, field)
                     : field->kind < KIND_STRING  ? find_in_fixed(cursor, found, field)
                                                  : find_in_sized(cursor, found, field, field->nullable);
        if (status < 0) {
            return -1;
        }
    }
    if (cursor->end - cursor->at < part->skipped) {
        return -1;
    }
    cursor->at += part->skipped;
    return part->flexible && (cursor->at >= cursor->end || cursor->data[cursor->at++] != 0) ? -1 : 0;
}

/* A text of ASCII characters. */
static PyObject *ascii_text(const SummaryReader *self, const char *text, int size) {
    return size == 0 ? Py_NewRef(self->empty) : PyUnicode_DecodeASCII(text, size, NULL);
}

static PyObject *ranges_text(const SummaryReader *self, Found *found) {
    Py_ssize_t more = found->range_count - RANGES_SHOWN;
    if (more > 0) {
        found->ranges_size += snprintf(found->ranges + found->ranges_size, (size_t)(TEXT_MAX - found->ranges_size),
                                       " and %zd more", more);
    }
    return ascii_text(self, found->ranges, found->ranges_size);
}

static PyObject *acknowledgements_text(const SummaryReader *self, const Found *found) {
    char text[TEXT_MAX];
    int size = 0;
    for (int i = 0; i < found->kind_count; i++) {
        const char *before = i ? ", " : "ack ";
        int kind = found->kinds[i];
        if (kind >= 0 && kind < PyTuple_GET_SIZE(self->acks)) {
            size += snprintf(text + size, (size_t)(TEXT_MAX - size), "%s%lld %.16s", before,
                             (long long)found->kind_counts[i], PyBytes_AS_STRING(PyTuple_GET_ITEM(self->acks, kind)));
        } else {
            size += snprintf(text + size, (size_t)(TEXT_MAX - size), "%s%lld type %d", before,
                             (long long)found->kind_counts[i], kind);
        }
    }
    return ascii_text(self, text, size);
}

static PyObject *records_text(const SummaryReader *self, const Found *found) {
    char text[TEXT_MAX];
    int size = 0;
    if (found->record_bytes > 0) {
        const char *noun = found->record_count == 1 ? "record" : "records";
        const char *codec = PyBytes_AS_STRING(PyTuple_GET_ITEM(self->codecs, found->codec));
        size = snprintf(text, TEXT_MAX, "%lld %s in %lld bytes%s%.16s%s", (long long)found->record_count, noun,
                        (long long)found->record_bytes, *codec ? " (" : "", codec, *codec ? ")" : "");
    }
    return ascii_text(self, text, size);
}

/* (key, acquired ranges, acknowledgements, records, epoch or None, wait); NULL with an exception. */
static PyObject *found_tuple(const SummaryReader *self, Found *found) {
    PyObject *values[] = {
        PyBytes_FromStringAndSize((const char *)found->key, found->key_size),
        ranges_text(self, found),
        acknowledgements_text(self, found),
        records_text(self, found),
        found->has_epoch ? PyLong_FromLong(found->epoch) : Py_NewRef(Py_None),
        PyLong_FromLong(found->wait),
    };
    Py_ssize_t count = sizeof(values) / sizeof(*values);
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple != NULL && values[i] != NULL) {
            PyTuple_SET_ITEM(tuple, i, values[i]);
        } else {
            Py_XDECREF(values[i]);
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *reader_read(SummaryReader *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyBytes_CheckExact(args[0]) || !PyTuple_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "read takes bytes and a tuple of offsets");
        return NULL;
    }
    PyObject *list = PyList_New(PyTuple_GET_SIZE(args[1]));
    for (Py_ssize_t i = 0; list != NULL && i < PyTuple_GET_SIZE(args[1]); i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[1], i));
        if (at == -1 && PyErr_Occurred()) {
            Py_DECREF(list);
            return NULL;
        }
        Cursor cursor = {(const uint8_t *)PyBytes_AS_STRING(args[0]), at, PyBytes_GET_SIZE(args[0]), args[0], NULL};
        Found found;
        found.key_size = found.range_count = 0;
        found.record_count = found.record_bytes = found.first = found.last = 0;
        found.codec = found.ranges_size = found.kind_count = found.has_epoch = 0;
        found.epoch = found.wait = 0;
        int is_found = at >= 0 && at <= cursor.end && find_in_struct(&cursor, &found, self->root) == 0;
        PyObject *item = is_found ? found_tuple(self, &found) : Py_NewRef(Py_None);
        if (item == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, i, item);
        }
    }
    return list;
}

static void free_summary_struct(SummaryStruct *part) {
    for (Py_ssize_t i = 0; part != NULL && i < part->count; i++) {
        free_summary_struct(part->fields[i].inner);
    }
    if (part != NULL) {
        PyMem_Free(part->fields);
        PyMem_Free(part);
    }
}

/* Whether a field can have its role: what the functions above read without a check. */
static int has_valid_role(int kind, int is_array, int role) {
    switch (role) {
    case ROLE_NONE:
    case ROLE_KEY:
        return 1;
    case ROLE_RECORDS:
        return kind == KIND_RECORDS && !is_array;
    case ROLE_RANGE_COUNT:
        return kind == KIND_INT16 && !is_array;
    case ROLE_ACK_TYPES:
        return kind == KIND_INT8 && is_array;
    case ROLE_EPOCH:
    case ROLE_WAIT:
        return kind == KIND_INT32 && !is_array;
    default:
        return role > 0 && role < ROLE_COUNT && kind == KIND_INT64 && !is_array;
    }
}

static SummaryStruct *make_summary_struct(PyObject *description);

/* Adds a field; -1 with an exception. */
static int add_field(SummaryStruct *part, PyObject *row, Py_ssize_t *skipped) {
    PyObject *inner;
    int kind, is_array, nullable, is_flexible, role;
    if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "ipppiO", &kind, &is_array, &nullable, &is_flexible, &role, &inner)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a field is a tuple");
        }
        return -1;
    }
    if (kind < 0 || kind >= KIND_COUNT || (kind == KIND_STRUCT) != (inner != Py_None) ||
        !has_valid_role(kind, is_array, role)) {
        PyErr_Format(PyExc_ValueError, "kind %d with role %d", kind, role);
        return -1;
    }
    if (kind < KIND_STRING && !is_array && role == ROLE_NONE) {
        *skipped += fixed_size(kind);
        return 0;
    }
    SummaryField *field = &part->fields[part->count];
    *field = (SummaryField){(uint8_t)kind, (uint8_t)is_array, (uint8_t)nullable, (uint8_t)is_flexible, (uint8_t)role,
                            *skipped,      NULL};
    *skipped = 0;
    if (kind == KIND_STRUCT && (field->inner = make_summary_struct(inner)) == NULL) {
        return -1;
    }
    part->count++;
    return 0;
}

/* (flexible, ((kind, is_array, nullable, flexible, role, struct or None), ...)); NULL with an exception. */
static SummaryStruct *make_summary_struct(PyObject *description) {
    PyObject *fields;
    int flexible;
    if (!PyTuple_Check(description) || !PyArg_ParseTuple(description, "pO!", &flexible, &PyTuple_Type, &fields)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a description is a tuple");
        }
        return NULL;
    }
    SummaryStruct *part = PyMem_Calloc(1, sizeof(SummaryStruct));
    if (part == NULL || (part->fields = PyMem_Calloc((size_t)PyTuple_GET_SIZE(fields) + 1, sizeof(SummaryField))) == NULL) {
        PyMem_Free(part);
        PyErr_NoMemory();
        return NULL;
    }
    part->flexible = (uint8_t)flexible;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); i++) {
        if (add_field(part, PyTuple_GET_ITEM(fields, i), &part->skipped) < 0) {
            free_summary_struct(part);
            return NULL;
        }
    }
    return part;
}

static void reader_dealloc(SummaryReader *self) {
    PyTypeObject *type = Py_TYPE(self);
    free_summary_struct(self->root);
    Py_XDECREF(self->codecs);
    Py_XDECREF(self->acks);
    Py_XDECREF(self->empty);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* A tuple of bytes; 0 with TypeError otherwise. */
static int are_names(PyObject *names) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        if (!PyBytes_Check(PyTuple_GET_ITEM(names, i))) {
            PyErr_SetString(PyExc_TypeError, "names are bytes");
            return 0;
        }
    }
    return 1;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"description", "codecs", "acks", NULL};
    PyObject *description, *codecs, *acks;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!:SummaryReader", names, &description, &PyTuple_Type, &codecs,
                                     &PyTuple_Type, &acks) ||
        !are_names(codecs) || !are_names(acks)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(codecs) != CODECS) {
        PyErr_Format(PyExc_ValueError, "there are %d numbers of codecs", CODECS);
        return NULL;
    }
    SummaryStruct *root = make_summary_struct(description);
    SummaryReader *self = root == NULL ? NULL : (SummaryReader *)type->tp_alloc(type, 0);
    if (self == NULL) {
        free_summary_struct(root);
        return NULL;
    }
    self->root = root;
    self->codecs = Py_NewRef(codecs);
    self->acks = Py_NewRef(acks);
    self->empty = PyUnicode_New(0, 127);
    if (self->empty == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL,
     "read(data: bytes, offsets: tuple) -> list of a tuple for each, or None where the Python code must read."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads what summaries of one version of a message are made of."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "kwire.accelerator.native.SummaryReader",
    .basicsize = sizeof(SummaryReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

int add_summary(PyObject *module) {
    PyObject *type = PyType_FromSpec(&reader_spec);
    if (type == NULL) {
        return -1;
    }
    int status = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return status;
}

/* The type JsonWriter: Kafka's JSON form of messages as text, made of their bytes (kwire/json_text.py has the rules).
   The bytes are a valid message; for what only the Python code can write, as tagged fields, it raises FastPathError. */
#include "plan.h"

#define SMALL_TEXT 4096
#define HEADER_SIZE 61
#define PREFIX_SIZE 12
/* The digits of the greatest number, and its sign. */
#define NUMBER_SIZE 20

struct JsonStruct;

/* A field in the order of the wire. `key` is what precedes the value; the description owns it. */
typedef struct {
    uint8_t kind; /* As in plan.h. */
    uint8_t is_array;
    uint8_t nullable;
    uint8_t flexible;
    const char *key;
    Py_ssize_t key_size;
    struct JsonStruct *inner;
} JsonField;

typedef struct JsonStruct {
    uint8_t flexible;
    Py_ssize_t count;
    JsonField *fields;
} JsonStruct;

typedef struct {
    PyObject_HEAD
    PyObject *description;
    PyObject *codecs;     /* The names of codecs by their numbers, as bytes. */
    PyObject *text_of;    /* The text of any string by its bytes. */
    PyObject *float_of;   /* The text of a float. */
    PyObject *records_of; /* The text of any records: called with the data, their offset and their end. */
    const char *quote;
    Py_ssize_t quote_size;
    JsonStruct *root;
} JsonWriter;

/* The text that is written, in UTF-8. */
typedef struct {
    char *bytes;
    Py_ssize_t size;
    Py_ssize_t capacity;
    int is_ascii;
    char small[SMALL_TEXT];
} Text;

static int write_json_struct(const JsonWriter *writer, Cursor *cursor, Text *text, const JsonStruct *part);

/* Place for this many bytes at the end; NULL with an exception. The caller adds to the size what it has written. */
static char *reserve(Text *text, Py_ssize_t size) {
    if (size > text->capacity - text->size) {
        Py_ssize_t capacity = 2 * text->capacity + size;
        char *bytes = text->bytes == text->small ? PyMem_Malloc((size_t)capacity)
                                                 : PyMem_Realloc(text->bytes, (size_t)capacity);
        if (bytes == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        if (text->bytes == text->small) {
            memcpy(bytes, text->small, (size_t)text->size);
        }
        text->bytes = bytes;
        text->capacity = capacity;
    }
    return text->bytes + text->size;
}

static int append(Text *text, const char *bytes, Py_ssize_t size) {
    char *place = reserve(text, size);
    if (place == NULL) {
        return -1;
    }
    memcpy(place, bytes, (size_t)size);
    text->size += size;
    return 0;
}

static int append_number(Text *text, int64_t value) {
    char digits[NUMBER_SIZE];
    Py_ssize_t at = NUMBER_SIZE;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    return append(text, digits + at, NUMBER_SIZE - at);
}

/* What a Python function returns; takes the reference. */
static int append_object(Text *text, PyObject *object) {
    Py_ssize_t size;
    const char *bytes = object == NULL ? NULL : PyUnicode_AsUTF8AndSize(object, &size);
    int status = bytes == NULL ? -1 : append(text, bytes, size);
    if (status == 0 && !PyUnicode_IS_ASCII(object)) {
        text->is_ascii = 0;
    }
    Py_XDECREF(object);
    return status;
}

/* In quotes; `alphabet` is one of base64. */
static int append_base64(const JsonWriter *writer, Text *text, const uint8_t *data, Py_ssize_t size,
                         const char *alphabet, int is_padded) {
    char *start = reserve(text, (size + 2) / 3 * 4 + 2 * writer->quote_size);
    if (start == NULL) {
        return -1;
    }
    char *place = start;
    memcpy(place, writer->quote, (size_t)writer->quote_size);
    place += writer->quote_size;
    for (Py_ssize_t i = 0; i < size; i += 3) {
        Py_ssize_t have = size - i < 3 ? size - i : 3;
        uint32_t bits = (uint32_t)data[i] << 16;
        bits |= have > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        bits |= have > 2 ? data[i + 2] : 0;
        for (Py_ssize_t j = 0; j < 4; j++) {
            if (j <= have) {
                *place++ = alphabet[bits >> (18 - 6 * j) & 63];
            } else if (is_padded) {
                *place++ = '=';
            }
        }
    }
    memcpy(place, writer->quote, (size_t)writer->quote_size);
    text->size += place + writer->quote_size - start;
    return 0;
}

static int append_uuid(const JsonWriter *writer, Text *text, const uint8_t *data) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return append_base64(writer, text, data, 16, alphabet, 0);
}

static int append_bytes(const JsonWriter *writer, Text *text, const uint8_t *data, Py_ssize_t size) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return append_base64(writer, text, data, size, alphabet, 1);
}

/* A string. Characters that JSON or a terminal does not take as they are, are left to the Python code. */
static int append_string(const JsonWriter *writer, Text *text, const uint8_t *data, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++) {
        if (data[i] < 0x20 || data[i] > 0x7E || data[i] == '"' || data[i] == '\\') {
            PyObject *raw = PyBytes_FromStringAndSize((const char *)data, size);
            PyObject *made = raw == NULL ? NULL : PyObject_CallOneArg(writer->text_of, raw);
            Py_XDECREF(raw);
            return append_object(text, made);
        }
    }
    char *place = reserve(text, size + 2 * writer->quote_size);
    if (place == NULL) {
        return -1;
    }
    memcpy(place, writer->quote, (size_t)writer->quote_size);
    memcpy(place + writer->quote_size, data, (size_t)size);
    memcpy(place + writer->quote_size + size, writer->quote, (size_t)writer->quote_size);
    text->size += size + 2 * writer->quote_size;
    return 0;
}

/* A key with its value: the value of a summary. */
static int append_key(const JsonWriter *writer, Text *text, char before, const char *key) {
    return append(text, &before, 1) < 0 || append(text, writer->quote, writer->quote_size) < 0 ||
                   append(text, key, (Py_ssize_t)strlen(key)) < 0 ||
                   append(text, writer->quote, writer->quote_size) < 0 || append(text, ":", 1) < 0
               ? -1
               : 0;
}

/* The summary of record batches. Those that are cut, damaged, old, or of different codecs are left to Python. */
static int append_records(const JsonWriter *writer, Cursor *cursor, Text *text, Py_ssize_t size) {
    Py_ssize_t at = cursor->at, end = at + size;
    int64_t total = 0;
    int codec = -1;
    while (end - at >= HEADER_SIZE) {
        const uint8_t *p = cursor->data + at;
        int64_t base = (int64_t)load_u64(p);
        int32_t length = (int32_t)load_u32(p + 8), delta = (int32_t)load_u32(p + 23), count = (int32_t)load_u32(p + 57);
        int label = p[22] & 7;
        if (p[16] != 2 || length < HEADER_SIZE - PREFIX_SIZE || length > end - at - PREFIX_SIZE || delta < 0 ||
            count < 0 || label >= PyTuple_GET_SIZE(writer->codecs) || base > INT64_MAX - delta ||
            (codec >= 0 && codec != label)) {
            at = -1;
            break;
        }
        at += PREFIX_SIZE + length;
        codec = label;
        total += count;
    }
    if (at != end) {
        return append_object(text, PyObject_CallFunction(writer->records_of, "Onn", cursor->owner, cursor->at, end));
    }
    PyObject *name = PyTuple_GET_ITEM(writer->codecs, codec < 0 ? 0 : codec);
    if (append_key(writer, text, '{', "count") < 0 || append_number(text, total) < 0 ||
        append_key(writer, text, ',', "bytes") < 0 || append_number(text, size) < 0 ||
        append_key(writer, text, ',', "codec") < 0 ||
        append_string(writer, text, (const uint8_t *)PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)) < 0) {
        return -1;
    }
    return append(text, "}", 1);
}

/* A value of fixed size. */
static int write_fixed(const JsonWriter *writer, Cursor *cursor, Text *text, int kind) {
    Py_ssize_t size = fixed_size(kind);
    const uint8_t *p = cursor->data + cursor->at;
    if (cursor->end - cursor->at < size) {
        return -1;
    }
    cursor->at += size;
    switch (kind) {
    case KIND_BOOL:
        return *p > 1 ? -1 : *p ? append(text, "true", 4) : append(text, "false", 5);
    case KIND_INT8:
        return append_number(text, (int8_t)*p);
    case KIND_UINT8:
        return append_number(text, *p);
    case KIND_INT16:
        return append_number(text, (int16_t)load_u16(p));
    case KIND_UINT16:
        return append_number(text, load_u16(p));
    case KIND_INT32:
        return append_number(text, (int32_t)load_u32(p));
    case KIND_UINT32:
        return append_number(text, load_u32(p));
    case KIND_INT64:
        return append_number(text, (int64_t)load_u64(p));
    case KIND_UUID:
        return append_uuid(writer, text, p);
    default: {
        uint64_t bits = load_u64(p);
        double value;
        memcpy(&value, &bits, 8);
        return append_object(text, PyObject_CallFunction(writer->float_of, "d", value));
    }
    }
}

/* A string, bytes or records. */
static int write_sized(const JsonWriter *writer, Cursor *cursor, Text *text, const JsonField *field, int is_nullable) {
    Py_ssize_t size = read_length(cursor, field->flexible, field->kind == KIND_STRING);
    if (size < 0) {
        return size == -1 && is_nullable ? append(text, "null", 4) : -1;
    }
    if (size > cursor->end - cursor->at) {
        return -1;
    }
    const uint8_t *data = cursor->data + cursor->at;
    int status = field->kind == KIND_STRING  ? append_string(writer, text, data, size)
                 : field->kind == KIND_BYTES ? append_bytes(writer, text, data, size)
                                             : append_records(writer, cursor, text, size);
    cursor->at += size;
    return status;
}

static int write_array(const JsonWriter *writer, Cursor *cursor, Text *text, const JsonField *field) {
    Py_ssize_t count = read_length(cursor, field->flexible, 0);
    if (count < 0) {
        return count == -1 && field->nullable ? append(text, "null", 4) : -1;
    }
    /* Each element has a byte at least. */
    if (count > cursor->end - cursor->at || append(text, "[", 1) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i && append(text, ",", 1) < 0) {
            return -1;
        }
        int status = field->kind == KIND_STRUCT   ? write_json_struct(writer, cursor, text, field->inner)
                     : field->kind < KIND_STRING ? write_fixed(writer, cursor, text, field->kind)
                                                 : write_sized(writer, cursor, text, field, 0);
        if (status < 0) {
            return -1;
        }
    }
    return append(text, "]", 1);
}

static int write_nested(const JsonWriter *writer, Cursor *cursor, Text *text, const JsonField *field) {
    if (field->nullable) {
        uint8_t marker = cursor->at < cursor->end ? cursor->data[cursor->at++] : 0;
        if (marker != 1) {
            return marker == 255 ? append(text, "null", 4) : -1;
        }
    }
    return write_json_struct(writer, cursor, text, field->inner);
}

/* -1 without an exception when only the Python code can write it. */
static int write_json_struct(const JsonWriter *writer, Cursor *cursor, Text *text, const JsonStruct *part) {
    if (append(text, "{", 1) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < part->count; i++) {
        const JsonField *field = &part->fields[i];
        if (append(text, field->key, field->key_size) < 0) {
            return -1;
        }
        int status = field->is_array              ? write_array(writer, cursor, text, field)
                     : field->kind == KIND_STRUCT ? write_nested(writer, cursor, text, field)
                     : field->kind < KIND_STRING  ? write_fixed(writer, cursor, text, field->kind)
                                                  : write_sized(writer, cursor, text, field, field->nullable);
        if (status < 0) {
            return -1;
        }
    }
    if (part->flexible && (cursor->at >= cursor->end || cursor->data[cursor->at++] != 0)) {
        return -1;
    }
    return append(text, "}", 1);
}

static void free_json_struct(JsonStruct *part) {
    for (Py_ssize_t i = 0; part != NULL && i < part->count; i++) {
        free_json_struct(part->fields[i].inner);
    }
    if (part != NULL) {
        PyMem_Free(part->fields);
        PyMem_Free(part);
    }
}

/* (flexible, ((kind, is_array, nullable, flexible, key, struct or None), ...)); NULL with an exception. */
static JsonStruct *make_json_struct(PyObject *description) {
    PyObject *fields;
    int flexible;
    if (!PyTuple_Check(description) || !PyArg_ParseTuple(description, "pO!", &flexible, &PyTuple_Type, &fields)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a description is a tuple");
        }
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(fields);
    JsonStruct *part = PyMem_Calloc(1, sizeof(JsonStruct));
    if (part == NULL || (part->fields = PyMem_Calloc((size_t)count + 1, sizeof(JsonField))) == NULL) {
        PyMem_Free(part);
        PyErr_NoMemory();
        return NULL;
    }
    part->flexible = (uint8_t)flexible;
    part->count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        JsonField *field = &part->fields[i];
        PyObject *key, *inner;
        int kind, is_array, nullable, is_flexible;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(fields, i), "ipppO!O", &kind, &is_array, &nullable, &is_flexible,
                              &PyBytes_Type, &key, &inner)) {
            break;
        }
        if (kind < 0 || kind >= KIND_COUNT || (kind == KIND_STRUCT) != (inner != Py_None)) {
            PyErr_Format(PyExc_ValueError, "kind %d of %R", kind, key);
            break;
        }
        *field = (JsonField){(uint8_t)kind,  (uint8_t)is_array,     (uint8_t)nullable,     (uint8_t)is_flexible,
                             PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), NULL};
        if (kind == KIND_STRUCT) {
            if (Py_EnterRecursiveCall(" in the description of a message")) {
                break;
            }
            field->inner = make_json_struct(inner);
            Py_LeaveRecursiveCall();
            if (field->inner == NULL) {
                break;
            }
        }
    }
    if (PyErr_Occurred()) {
        free_json_struct(part);
        return NULL;
    }
    return part;
}

static int writer_traverse(JsonWriter *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->description);
    Py_VISIT(self->codecs);
    Py_VISIT(self->text_of);
    Py_VISIT(self->float_of);
    Py_VISIT(self->records_of);
    return 0;
}

static int writer_clear(JsonWriter *self) {
    free_json_struct(self->root);
    self->root = NULL;
    Py_CLEAR(self->description);
    Py_CLEAR(self->codecs);
    Py_CLEAR(self->text_of);
    Py_CLEAR(self->float_of);
    Py_CLEAR(self->records_of);
    return 0;
}

static void writer_dealloc(JsonWriter *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    writer_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"description", "codecs", "text_of", "float_of", "records_of", "is_escaped", NULL};
    PyObject *description, *codecs, *text_of, *float_of, *records_of;
    int is_escaped;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OOOp:JsonWriter", names, &description, &PyTuple_Type, &codecs,
                                     &text_of, &float_of, &records_of, &is_escaped)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(codecs); i++) {
        if (!PyBytes_Check(PyTuple_GET_ITEM(codecs, i))) {
            PyErr_SetString(PyExc_TypeError, "the names of codecs are bytes");
            return NULL;
        }
    }
    if (PyTuple_GET_SIZE(codecs) == 0) {
        PyErr_SetString(PyExc_ValueError, "no names of codecs");
        return NULL;
    }
    JsonStruct *root = make_json_struct(description);
    JsonWriter *self = root == NULL ? NULL : (JsonWriter *)type->tp_alloc(type, 0);
    if (self == NULL) {
        free_json_struct(root);
        return NULL;
    }
    self->root = root;
    self->description = Py_NewRef(description);
    self->codecs = Py_NewRef(codecs);
    self->text_of = Py_NewRef(text_of);
    self->float_of = Py_NewRef(float_of);
    self->records_of = Py_NewRef(records_of);
    self->quote = is_escaped ? "\\\"" : "\"";
    self->quote_size = is_escaped ? 2 : 1;
    return (PyObject *)self;
}

/* The text of the message at an offset; NULL, without an exception when only the Python code can write it. */
static PyObject *write_text(const JsonWriter *self, PyObject *data, Py_ssize_t at) {
    Cursor cursor = {(const uint8_t *)PyBytes_AS_STRING(data), at, PyBytes_GET_SIZE(data), data, NULL};
    Text text;
    text.bytes = text.small;
    text.size = 0;
    text.capacity = SMALL_TEXT;
    text.is_ascii = 1;
    PyObject *result = NULL;
    if (at >= 0 && at <= cursor.end && write_json_struct(self, &cursor, &text, self->root) == 0) {
        if (!text.is_ascii) {
            result = PyUnicode_DecodeUTF8(text.bytes, text.size, "strict");
        } else if ((result = PyUnicode_New(text.size, 127)) != NULL) {
            memcpy(PyUnicode_1BYTE_DATA(result), text.bytes, (size_t)text.size);
        }
    }
    if (text.bytes != text.small) {
        PyMem_Free(text.bytes);
    }
    return result;
}

static PyObject *writer_write(JsonWriter *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "write takes bytes and an offset");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (at == -1 && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *result = write_text(self, args[0], at);
    if (result == NULL && !PyErr_Occurred()) {
        PyErr_SetNone(fast_path_error);
    }
    return result;
}

static PyObject *writer_write_each(JsonWriter *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyBytes_CheckExact(args[0]) || !PyTuple_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "write_each takes bytes and a tuple of offsets");
        return NULL;
    }
    /* It grows: the functions that are called can see the list, which must not have empty places then. */
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < PyTuple_GET_SIZE(args[1]); i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[1], i));
        if (at == -1 && PyErr_Occurred()) {
            Py_DECREF(list);
            return NULL;
        }
        PyObject *text = write_text(self, args[0], at);
        if (text == NULL && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
                Py_DECREF(list);
                return NULL;
            }
            /* The caller's Python code finds it again. */
            PyErr_Clear();
        }
        if (PyList_Append(list, text == NULL ? Py_None : text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    return list;
}

static PyMethodDef writer_methods[] = {
    {"write", (PyCFunction)(void (*)(void))writer_write, METH_FASTCALL,
     "write(data: bytes, at: int) -> str. Raises FastPathError, or another of FAILURES."},
    {"write_each", (PyCFunction)(void (*)(void))writer_write_each, METH_FASTCALL,
     "write_each(data: bytes, offsets: tuple) -> list of texts, None for those that `write` raises an error for."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "Writes one version of a message as JSON."},
    {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    .name = "kwire.accelerator.native.JsonWriter",
    .basicsize = sizeof(JsonWriter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = writer_slots,
};

int add_json(PyObject *module) {
    return add_type(module, &writer_spec);
}

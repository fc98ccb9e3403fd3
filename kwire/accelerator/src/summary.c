/* The type SummaryReader: what the one-line summary of a message is made of, read from its bytes
   (kwire/capture/columnar/summary_reader.py has the rules). */
#include "summary.h"

#define CODECS 8
/* Of codecs and acknowledgement types. */
#define NAME_MAX_SIZE 16
/* Ranges, eight types of acknowledgements of 40 bytes, records of request and response, and the session fit in it. */
#define PARTS_MAX (2 * TEXT_MAX)
#define GAP "  "
#define GAP_SIZE 2

typedef struct {
    PyObject_HEAD
    PyObject *codecs; /* The names of codecs by their numbers, as bytes; empty for none. */
    PyObject *acks;   /* The names of acknowledgement types by their numbers, as bytes. */
    SummaryStruct *root;
} SummaryReader;

/* What `read` reads: arguments, borrowed. */
typedef struct {
    SummaryReader *answers;
    PyObject *data;
    PyObject *request_at;
    PyObject *response_at;
    PyObject *heads; /* By the bytes of the fields that they depend on. */
    PyObject *make_head;
} Reading;

/* The parts of a summary behind its head, each after two spaces; ASCII. */
typedef struct {
    char text[PARTS_MAX];
    int size;
} Parts;

static void begin_part(Parts *parts) {
    memcpy(parts->text + parts->size, GAP, GAP_SIZE);
    parts->size += GAP_SIZE;
}

static void add_ranges(Parts *parts, const Found *found) {
    if (found->range_count == 0) {
        return;
    }
    begin_part(parts);
    memcpy(parts->text + parts->size, found->ranges, (size_t)found->ranges_size);
    parts->size += found->ranges_size;
    if (found->range_count > RANGES_SHOWN) {
        parts->size += snprintf(parts->text + parts->size, (size_t)(PARTS_MAX - parts->size), " and %zd more",
                                found->range_count - RANGES_SHOWN);
    }
}

static void add_acknowledgements(const SummaryReader *self, Parts *parts, const Found *found) {
    for (int i = 0; i < found->kind_count; i++) {
        int kind = found->kinds[i];
        int is_named = kind >= 0 && kind < PyTuple_GET_SIZE(self->acks);
        if (i == 0) {
            begin_part(parts);
        }
        parts->size += snprintf(parts->text + parts->size, (size_t)(PARTS_MAX - parts->size), "%s%lld ",
                                i ? ", " : "ack ", (long long)found->kind_counts[i]);
        char *place = parts->text + parts->size;
        size_t left = (size_t)(PARTS_MAX - parts->size);
        parts->size += is_named ? snprintf(place, left, "%s", PyBytes_AS_STRING(PyTuple_GET_ITEM(self->acks, kind)))
                                : snprintf(place, left, "type %d", kind);
    }
}

static void add_records_part(const SummaryReader *self, Parts *parts, const Found *found) {
    if (found->record_bytes == 0) {
        return;
    }
    begin_part(parts);
    const char *noun = found->record_count == 1 ? "record" : "records";
    const char *codec = PyBytes_AS_STRING(PyTuple_GET_ITEM(self->codecs, found->codec));
    parts->size += snprintf(parts->text + parts->size, (size_t)(PARTS_MAX - parts->size), "%lld %s in %lld bytes%s%s%s",
                            (long long)found->record_count, noun, (long long)found->record_bytes, *codec ? " (" : "",
                            codec, *codec ? ")" : "");
}

/* The parts behind the head, in the order of a summary. */
static void add_parts(const SummaryReader *self, Parts *parts, const Found *request, const Found *response) {
    parts->size = 0;
    add_ranges(parts, response);
    add_acknowledgements(self, parts, request);
    add_records_part(self, parts, request);
    add_records_part(self, parts, response);
    if (request->has_epoch) {
        parts->size += snprintf(parts->text + parts->size, (size_t)(PARTS_MAX - parts->size), GAP "session %d",
                                (int)request->epoch);
    }
}

/* The head and the parts behind it; NULL with an exception. */
static PyObject *join_parts(PyObject *head, const Parts *parts) {
    Py_ssize_t head_size = PyUnicode_GET_LENGTH(head);
    if (head_size == 0) {
        return parts->size == 0 ? Py_NewRef(head)
                                : PyUnicode_DecodeASCII(parts->text + GAP_SIZE, parts->size - GAP_SIZE, NULL);
    }
    if (PyUnicode_IS_ASCII(head)) {
        PyObject *text = PyUnicode_New(head_size + parts->size, 127);
        if (text != NULL) {
            memcpy(PyUnicode_1BYTE_DATA(text), PyUnicode_1BYTE_DATA(head), (size_t)head_size);
            memcpy(PyUnicode_1BYTE_DATA(text) + head_size, parts->text, (size_t)parts->size);
        }
        return text;
    }
    PyObject *tail = PyUnicode_DecodeASCII(parts->text, parts->size, NULL);
    PyObject *text = tail == NULL ? NULL : PyUnicode_Concat(head, tail);
    Py_XDECREF(tail);
    return text;
}

/* The stored head of exchanges with these fields, or that of `make_head(request_at, response_at)`; NULL with an
   exception. */
static PyObject *find_head(const Reading *reading, const Found *request, const Found *response, Py_ssize_t at,
                           Py_ssize_t answer_at) {
    Py_ssize_t size = (Py_ssize_t)sizeof(request->key_size) + request->key_size + response->key_size;
    PyObject *key = PyBytes_FromStringAndSize(NULL, size);
    if (key == NULL) {
        return NULL;
    }
    char *place = PyBytes_AS_STRING(key);
    memcpy(place, &request->key_size, sizeof(request->key_size));
    place += sizeof(request->key_size);
    memcpy(place, request->key, (size_t)request->key_size);
    memcpy(place + request->key_size, response->key, (size_t)response->key_size);
    PyObject *head = Py_XNewRef(PyDict_GetItemWithError(reading->heads, key));
    if (head == NULL && !PyErr_Occurred()) {
        head = PyObject_CallFunction(reading->make_head, "nn", at, answer_at);
        if (head != NULL && !PyUnicode_Check(head)) {
            PyErr_SetString(PyExc_TypeError, "a head is a string");
            Py_CLEAR(head);
        }
        if (head != NULL && PyDict_SetItem(reading->heads, key, head) < 0) {
            Py_CLEAR(head);
        }
    }
    Py_DECREF(key);
    return head;
}

/* What is found in the message at an offset; 0 when the Python code must decode it. */
static int find_at(const Reading *reading, const SummaryStruct *root, Py_ssize_t at, Found *found) {
    Cursor cursor = {(const uint8_t *)PyBytes_AS_STRING(reading->data), at, PyBytes_GET_SIZE(reading->data),
                     reading->data, NULL};
    found->key_size = found->range_count = 0;
    found->record_count = found->record_bytes = found->first = found->last = 0;
    found->codec = found->ranges_size = found->kind_count = found->has_epoch = 0;
    found->epoch = found->wait = 0;
    return root == NULL || (at >= 0 && at <= cursor.end && find_in_struct(&cursor, found, root) == 0);
}

/* The summary of an exchange, or None, and the wait; NULL with an exception. */
static PyObject *read_exchange(const SummaryReader *self, const Reading *reading, Py_ssize_t at, Py_ssize_t answer_at,
                               int32_t *wait) {
    Found request, response;
    Parts parts;
    if (!find_at(reading, self->root, at, &request) ||
        !find_at(reading, answer_at < 0 ? NULL : reading->answers->root, answer_at, &response)) {
        return Py_NewRef(Py_None);
    }
    PyObject *head = find_head(reading, &request, &response, at, answer_at);
    if (head == NULL) {
        return NULL;
    }
    add_parts(self, &parts, &request, &response);
    PyObject *text = join_parts(head, &parts);
    Py_DECREF(head);
    *wait = request.wait > 0 ? request.wait : 0;
    return text;
}

/* Fills both lists; -1 with an exception. */
static int read_exchanges(const SummaryReader *self, const Reading *reading, PyObject *texts, PyObject *waits) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reading->request_at); i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(reading->request_at, i));
        Py_ssize_t answer_at = at == -1 && PyErr_Occurred() ? -1 : PyLong_AsSsize_t(PyTuple_GET_ITEM(reading->response_at, i));
        if ((at == -1 || answer_at == -1) && PyErr_Occurred()) {
            return -1;
        }
        int32_t wait = 0;
        PyObject *text = read_exchange(self, reading, at, answer_at, &wait);
        PyObject *number = text == NULL ? NULL : PyLong_FromLong(wait);
        if (number == NULL) {
            Py_XDECREF(text);
            return -1;
        }
        /* The function that made a head may have found the lists, and changed them. */
        if (PyList_SetItem(texts, i, text) < 0) {
            Py_DECREF(number);
            return -1;
        }
        if (PyList_SetItem(waits, i, number) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A list of None: Python code may find it before it is filled. NULL with an exception. */
static PyObject *make_list(Py_ssize_t size) {
    PyObject *list = PyList_New(size);
    for (Py_ssize_t i = 0; list != NULL && i < size; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef(Py_None));
    }
    return list;
}

/* read(answers, data, (request_at, response_at), heads, make_head) */
static PyObject *reader_read(SummaryReader *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *places = count == 5 && PyTuple_CheckExact(args[2]) && PyTuple_GET_SIZE(args[2]) == 2 ? args[2] : NULL;
    PyObject *request_at = places == NULL ? NULL : PyTuple_GET_ITEM(places, 0);
    PyObject *response_at = places == NULL ? NULL : PyTuple_GET_ITEM(places, 1);
    if (places == NULL || !Py_IS_TYPE(args[0], Py_TYPE(self)) || !PyBytes_CheckExact(args[1]) ||
        !PyTuple_CheckExact(request_at) || !PyTuple_CheckExact(response_at) || !PyDict_CheckExact(args[3]) ||
        PyTuple_GET_SIZE(request_at) != PyTuple_GET_SIZE(response_at)) {
        PyErr_SetString(PyExc_TypeError, "read takes a reader, bytes, two tuples of offsets, a dict and a function");
        return NULL;
    }
    Reading reading = {(SummaryReader *)args[0], args[1], request_at, response_at, args[3], args[4]};
    PyObject *texts = make_list(PyTuple_GET_SIZE(request_at)), *waits = make_list(PyTuple_GET_SIZE(request_at));
    if (texts == NULL || waits == NULL || read_exchanges(self, &reading, texts, waits) < 0) {
        Py_XDECREF(texts);
        Py_XDECREF(waits);
        return NULL;
    }
    return Py_BuildValue("NN", texts, waits);
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
    if (kind == KIND_STRUCT) {
        if (Py_EnterRecursiveCall(" in the description of a summary")) {
            return -1;
        }
        field->inner = make_summary_struct(inner);
        Py_LeaveRecursiveCall();
        if (field->inner == NULL) {
            return -1;
        }
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
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* A tuple of short ASCII names as bytes; 0 with TypeError or ValueError otherwise. */
static int are_names(PyObject *names) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyBytes_Check(name)) {
            PyErr_SetString(PyExc_TypeError, "names are bytes");
            return 0;
        }
        int is_text = PyBytes_GET_SIZE(name) <= NAME_MAX_SIZE;
        for (Py_ssize_t at = 0; is_text && at < PyBytes_GET_SIZE(name); at++) {
            char byte = PyBytes_AS_STRING(name)[at];
            is_text = byte >= 0x20 && byte < 0x7F;
        }
        if (!is_text) {
            PyErr_Format(PyExc_ValueError, "the name %R is not of at most %d ASCII characters", name, NAME_MAX_SIZE);
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
    return (PyObject *)self;
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL,
     "read(answers, data, (request_at, response_at), heads, make_head) -> the summaries of exchanges, None where the Python "
     "code must read, and the waits of their requests."},
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
    return add_type(module, &reader_spec);
}

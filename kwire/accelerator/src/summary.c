/* The type SummaryReader: what the one-line summary of a message is made of, read from its bytes
   (kwire/capture/columnar/summary_reader.py has the rules). */
#include "summary.h"

#define CODECS 8
/* Of codecs and acknowledgement types: texts of TEXT_MAX bytes have place for all of a message. */
#define NAME_MAX_SIZE 16

typedef struct {
    PyObject_HEAD
    PyObject *codecs; /* The names of codecs by their numbers, as bytes; empty for none. */
    PyObject *acks;   /* The names of acknowledgement types by their numbers, as bytes. */
    PyObject *empty;
    SummaryStruct *root;
} SummaryReader;

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
            size += snprintf(text + size, (size_t)(TEXT_MAX - size), "%s%lld %s", before,
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
        size = snprintf(text, TEXT_MAX, "%lld %s in %lld bytes%s%s%s", (long long)found->record_count, noun,
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
    Py_XDECREF(self->empty);
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
    return add_type(module, &reader_spec);
}

/* The type RecordCodec: reads and writes the records of batches of magic 2. */
#include "records.h"
#include "plan.h"

/* The class of the header fields that decoding needs, and where its slots are. */
typedef struct {
    PyTypeObject *type;
    Py_ssize_t count;
    Py_ssize_t offset;
    Py_ssize_t timestamp;
    Py_ssize_t append_time;
    Py_ssize_t starts_at;
} BaseLayout;

typedef struct {
    PyObject_HEAD
    RecordLayout layout;
    BaseLayout base;
} RecordCodec;

static int codec_traverse(RecordCodec *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->layout.type);
    Py_VISIT(self->base.type);
    return 0;
}

static int codec_clear(RecordCodec *self) {
    Py_CLEAR(self->layout.type);
    Py_CLEAR(self->base.type);
    return 0;
}

static void codec_dealloc(RecordCodec *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    codec_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

int find_slots(PyTypeObject *type, const char *const *names, Py_ssize_t *const *slots, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL) {
            return -1;
        }
        *slots[i] = find_slot(type, name);
        Py_DECREF(name);
        if (*slots[i] < 0) {
            return -1;
        }
    }
    return check_layout(type, count);
}

static int fill_record_layout(RecordLayout *layout, PyTypeObject *type) {
    static const char *const names[] = {"offset", "timestamp", "key", "value", "headers"};
    Py_ssize_t *const slots[] = {&layout->offset, &layout->timestamp, &layout->key, &layout->value, &layout->headers};
    layout->type = type;
    return find_slots(type, names, slots, 5);
}

static int fill_base_layout(BaseLayout *base, PyTypeObject *type) {
    static const char *const names[] = {"count", "offset", "timestamp", "append_time", "starts_at"};
    Py_ssize_t *const slots[] = {&base->count, &base->offset, &base->timestamp, &base->append_time, &base->starts_at};
    base->type = type;
    return find_slots(type, names, slots, 5);
}

static PyObject *codec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"record", "base", NULL};
    PyTypeObject *record, *base_type;
    RecordLayout layout;
    BaseLayout base;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!:RecordCodec", names, &PyType_Type, &record, &PyType_Type,
                                     &base_type) ||
        fill_record_layout(&layout, record) < 0 || fill_base_layout(&base, base_type) < 0) {
        return NULL;
    }
    RecordCodec *self = (RecordCodec *)type->tp_alloc(type, 0);
    if (self != NULL) {
        Py_INCREF(record);
        Py_INCREF(base_type);
        self->layout = layout;
        self->base = base;
    }
    return (PyObject *)self;
}

/* A whole number that fits; 0 when it does not, without an exception. */
static int int64_of(PyObject *value, int64_t lowest, int64_t highest, int64_t *number) {
    if (value == NULL || !PyLong_Check(value)) {
        return 0;
    }
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && *number >= lowest && *number <= highest;
}

static int wrong_count(const char *what, Py_ssize_t expected, Py_ssize_t count) {
    if (count == expected) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", what, expected, count);
    return 1;
}

/* read(data, base, strict) */
static PyObject *codec_read(RecordCodec *self, PyObject *const *args, Py_ssize_t arg_count) {
    int64_t starts_at, count;
    BatchBase base;
    if (wrong_count("read", 3, arg_count)) {
        return NULL;
    }
    int is_strict = PyObject_IsTrue(args[2]);
    if (is_strict < 0) {
        return NULL;
    }
    PyObject *fields = args[1];
    if (Py_TYPE(fields) != self->base.type) {
        PyErr_Format(PyExc_TypeError, "the base is no %.200s", self->base.type->tp_name);
        return NULL;
    }
    if (!int64_of(*slot_of(fields, self->base.starts_at), 0, PY_SSIZE_T_MAX, &starts_at) ||
        !int64_of(*slot_of(fields, self->base.count), 0, INT32_MAX, &count) ||
        !int64_of(*slot_of(fields, self->base.offset), INT64_MIN, INT64_MAX, &base.offset) ||
        !int64_of(*slot_of(fields, self->base.timestamp), INT64_MIN, INT64_MAX, &base.timestamp)) {
        Py_RETURN_NONE;
    }
    base.count = (Py_ssize_t)count;
    base.append_time = *slot_of(fields, self->base.append_time);
    if (base.append_time == Py_None) {
        base.append_time = NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *records = NULL;
    if (starts_at <= buffer.len) {
        /* Nothing that is read can be garbage before it is returned. */
        int was_enabled = PyGC_Disable();
        records = read_records(&self->layout, (const uint8_t *)buffer.buf + starts_at,
                               buffer.len - (Py_ssize_t)starts_at, &base, is_strict);
        if (was_enabled) {
            PyGC_Enable();
        }
    }
    PyBuffer_Release(&buffer);
    if (records == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return records;
}

/* A number that may be left open, as None. */
static int optional_int64(PyObject *value, int64_t *number, int *is_given) {
    *number = -1;
    *is_given = value != Py_None;
    return !*is_given || int64_of(value, INT64_MIN, INT64_MAX, number);
}

/* (base offset, last offset, base timestamp, max timestamp); -1 with an exception, 0 when a number does not fit. */
static int fill_span(BatchSpan *span, PyObject *numbers) {
    if (!PyTuple_CheckExact(numbers) || PyTuple_GET_SIZE(numbers) != 4) {
        PyErr_SetString(PyExc_TypeError, "a span is a tuple of four");
        return -1;
    }
    return optional_int64(PyTuple_GET_ITEM(numbers, 0), &span->base_offset, &span->has_base_offset) &&
           optional_int64(PyTuple_GET_ITEM(numbers, 1), &span->last_offset, &span->has_last_offset) &&
           optional_int64(PyTuple_GET_ITEM(numbers, 2), &span->base_timestamp, &span->has_base_timestamp) &&
           optional_int64(PyTuple_GET_ITEM(numbers, 3), &span->max_timestamp, &span->has_max_timestamp);
}

/* None when the pure code must write, and NULL with an exception. */
static PyObject *give_up(void) {
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* write_body(records, span) */
static PyObject *codec_write_body(RecordCodec *self, PyObject *const *args, Py_ssize_t arg_count) {
    BatchSpan span;
    if (wrong_count("write_body", 2, arg_count)) {
        return NULL;
    }
    PyObject *body = fill_span(&span, args[1]) <= 0 ? NULL : write_records(&self->layout, args[0], 0, &span);
    if (body == NULL) {
        return give_up();
    }
    return Py_BuildValue("NLLLL", body, (long long)span.base_offset, (long long)span.last_offset,
                         (long long)span.base_timestamp, (long long)span.max_timestamp);
}

/* The checksum of a batch behind it, by the function of the package crc32c; -1 with an exception. */
static int put_checksum(PyObject *batch, PyObject *checksum) {
    uint8_t *data = (uint8_t *)PyBytes_AS_STRING(batch);
    Py_ssize_t size = PyBytes_GET_SIZE(batch);
    Cursor cursor = {data, 0, size, batch, NULL};
    PyObject *covered = make_view(&cursor, BATCH_CRC_START, size - BATCH_CRC_START);
    PyObject *result = covered == NULL ? NULL : PyObject_CallOneArg(checksum, covered);
    Py_XDECREF(covered);
    Py_XDECREF(cursor.view);
    if (result == NULL) {
        return -1;
    }
    unsigned long crc = PyLong_AsUnsignedLong(result);
    Py_DECREF(result);
    if (crc == (unsigned long)-1 && PyErr_Occurred()) {
        return -1;
    }
    store_u32(data + BATCH_CRC_AT, (uint32_t)crc);
    return 0;
}

/* The header fields of a batch that do not follow from its records. */
typedef struct {
    int64_t leader_epoch;
    int64_t attributes;
    int64_t producer_id;
    int64_t producer_epoch;
    int64_t base_sequence;
} BatchFields;

/* (partition leader epoch, attributes, producer id, producer epoch, base sequence); as fill_span. */
static int fill_fields(BatchFields *fields, PyObject *numbers) {
    if (!PyTuple_CheckExact(numbers) || PyTuple_GET_SIZE(numbers) != 5) {
        PyErr_SetString(PyExc_TypeError, "the fields are a tuple of five");
        return -1;
    }
    return int64_of(PyTuple_GET_ITEM(numbers, 0), INT32_MIN, INT32_MAX, &fields->leader_epoch) &&
           int64_of(PyTuple_GET_ITEM(numbers, 1), INT16_MIN, INT16_MAX, &fields->attributes) &&
           int64_of(PyTuple_GET_ITEM(numbers, 2), INT64_MIN, INT64_MAX, &fields->producer_id) &&
           int64_of(PyTuple_GET_ITEM(numbers, 3), INT16_MIN, INT16_MAX, &fields->producer_epoch) &&
           int64_of(PyTuple_GET_ITEM(numbers, 4), INT32_MIN, INT32_MAX, &fields->base_sequence);
}

/* write_batch(records, span, fields, checksum) */
static PyObject *codec_write_batch(RecordCodec *self, PyObject *const *args, Py_ssize_t arg_count) {
    BatchSpan span;
    BatchFields fields;
    if (wrong_count("write_batch", 4, arg_count)) {
        return NULL;
    }
    PyObject *batch = fill_span(&span, args[1]) <= 0 || fill_fields(&fields, args[2]) <= 0
                          ? NULL
                          : write_records(&self->layout, args[0], BATCH_HEADER_BYTES, &span);
    if (batch == NULL) {
        return give_up();
    }
    uint8_t *p = (uint8_t *)PyBytes_AS_STRING(batch);
    store_u64(p, (uint64_t)span.base_offset);
    store_u32(p + 8, (uint32_t)(PyBytes_GET_SIZE(batch) - BATCH_PREFIX_BYTES));
    store_u32(p + 12, (uint32_t)fields.leader_epoch);
    p[16] = 2; /* Magic. */
    store_u16(p + BATCH_CRC_START, (uint16_t)fields.attributes);
    store_u32(p + 23, (uint32_t)(span.last_offset - span.base_offset));
    store_u64(p + 27, (uint64_t)span.base_timestamp);
    store_u64(p + 35, (uint64_t)span.max_timestamp);
    store_u64(p + 43, (uint64_t)fields.producer_id);
    store_u16(p + 51, (uint16_t)fields.producer_epoch);
    store_u32(p + 53, (uint32_t)fields.base_sequence);
    store_u32(p + 57, (uint32_t)PySequence_Fast_GET_SIZE(args[0]));
    if (put_checksum(batch, args[3]) < 0) {
        Py_CLEAR(batch);
    }
    return batch;
}

static PyMethodDef codec_methods[] = {
    {"read", (PyCFunction)(void (*)(void))codec_read, METH_FASTCALL,
     "read(data, base, strict) -> list of records, or None when the pure code must read them."},
    {"write_body", (PyCFunction)(void (*)(void))codec_write_body, METH_FASTCALL,
     "write_body(records, span) -> the records as bytes and the four numbers of the span, or None when the pure code "
     "must write them."},
    {"write_batch", (PyCFunction)(void (*)(void))codec_write_batch, METH_FASTCALL,
     "write_batch(records, span, fields, checksum) -> the bytes of a batch without compression, or None when the pure "
     "code must write it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot codec_slots[] = {
    {Py_tp_doc, "Reads and writes the records of batches of magic 2."},
    {Py_tp_new, codec_new},
    {Py_tp_dealloc, codec_dealloc},
    {Py_tp_traverse, codec_traverse},
    {Py_tp_clear, codec_clear},
    {Py_tp_methods, codec_methods},
    {0, NULL},
};

static PyType_Spec codec_spec = {
    .name = "kwire.accelerator.native.RecordCodec",
    .basicsize = sizeof(RecordCodec),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = codec_slots,
};

static PyMethodDef functions[] = {
    {"scan_records", (PyCFunction)(void (*)(void))scan_records, METH_FASTCALL,
     "scan_records(data, count, base_timestamp) -> smallest and largest timestamp, whether a record has no key, "
     "whether the offset deltas are 0, 1, 2 and so on, the number of headers, and the size of the largest record; None "
     "when the records are not as Kafka reads them."},
    {"read_record_columns", (PyCFunction)(void (*)(void))read_record_columns, METH_FASTCALL,
     "read_record_columns(data, begins, ends, name_prefix, is_decompressed) -> which partitions were read, as bytes of 0 "
     "and 1, and the rows of their batches, records and headers, as bytes of int64."},
    {"check_batches", (PyCFunction)(void (*)(void))check_batches, METH_FASTCALL,
     "check_batches(data, begins, ends) -> bytes of 0 and 1: whether all batches of each body are complete, of magic 2, "
     "and have the right checksum."},
    {NULL, NULL, 0, NULL},
};

int add_records(PyObject *module) {
    prepare_checksums();
    if (add_type(module, &codec_spec) < 0 || add_batch_reader(module) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}

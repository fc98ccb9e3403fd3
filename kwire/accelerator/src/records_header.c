/* The type BatchReader: reads the headers of batches of magic 2. */
#include "plan.h"
#include "records.h"

#define BATCH_SLOTS 13

typedef struct {
    PyObject_HEAD
    PyTypeObject *batch;
    Py_ssize_t slots[BATCH_SLOTS]; /* In the order of `names`. */
} BatchReader;

static const char *const names[BATCH_SLOTS] = {
    "base_offset",   "last_offset", "magic",       "attributes",     "count",         "partition_leader_epoch",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "crc",
    "raw",
};

static int reader_traverse(BatchReader *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->batch);
    return 0;
}

static int reader_clear(BatchReader *self) {
    Py_CLEAR(self->batch);
    return 0;
}

static void reader_dealloc(BatchReader *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    reader_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *arguments[] = {"batch", NULL};
    PyTypeObject *batch;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:BatchReader", arguments, &PyType_Type, &batch)) {
        return NULL;
    }
    BatchReader *self = (BatchReader *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    Py_ssize_t *slots[BATCH_SLOTS];
    for (int i = 0; i < BATCH_SLOTS; i++) {
        slots[i] = &self->slots[i];
    }
    Py_INCREF(batch);
    self->batch = batch;
    if (find_slots(batch, names, slots, BATCH_SLOTS) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* memoryview(data)[start:start + size], of a buffer of bytes. */
static PyObject *view_of(PyObject *data, const Py_buffer *buffer, Py_ssize_t start, Py_ssize_t size) {
    PyObject *view = PyMemoryView_FromObject(data);
    if (view == NULL) {
        return NULL;
    }
    Py_buffer *own = PyMemoryView_GET_BUFFER(view);
    if (own->buf != buffer->buf || own->len != buffer->len) {
        Py_DECREF(view);
        PyErr_SetString(PyExc_BufferError, "a buffer that differs from view to view");
        return NULL;
    }
    /* As in make_view: narrowed before anybody else sees it. */
    own->buf = (char *)own->buf + start;
    own->len = size;
    own->shape[0] = size;
    return view;
}

/* Whether a view of the buffer has one dimension of unsigned bytes without gaps. */
static int is_of_bytes(const Py_buffer *buffer) {
    return buffer->ndim == 1 && buffer->itemsize == 1 && buffer->suboffsets == NULL && buffer->shape != NULL &&
           (buffer->strides == NULL || buffer->strides[0] == 1) &&
           (buffer->format == NULL || strcmp(buffer->format, "B") == 0);
}

/* The header at `p` as an object whose `raw` is not set; NULL with an exception. */
static PyObject *make_batch(const BatchReader *self, const uint8_t *p) {
    int32_t last_delta = (int32_t)load_u32(p + 23);
    int64_t base_offset = (int64_t)load_u64(p);
    const int64_t numbers[BATCH_SLOTS - 1] = {
        base_offset,
        base_offset + last_delta,
        2,
        (int16_t)load_u16(p + BATCH_CRC_START),
        (int32_t)load_u32(p + 57),
        (int32_t)load_u32(p + 12),
        (int64_t)load_u64(p + 27),
        (int64_t)load_u64(p + 35),
        (int64_t)load_u64(p + 43),
        (int16_t)load_u16(p + 51),
        (int32_t)load_u32(p + 53),
        (int64_t)load_u32(p + BATCH_CRC_AT),
    };
    PyObject *batch = self->batch->tp_alloc(self->batch, 0);
    for (int i = 0; batch != NULL && i < BATCH_SLOTS - 1; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL) {
            Py_CLEAR(batch);
            break;
        }
        *slot_of(batch, self->slots[i]) = number;
    }
    return batch;
}

/* Whether a whole batch of magic 2 with a valid header is at `start`; its size. */
static int has_batch(const uint8_t *data, Py_ssize_t data_size, Py_ssize_t start, Py_ssize_t *size) {
    if (start < 0 || data_size - start < BATCH_HEADER_BYTES || data[start + 16] != 2) {
        return 0;
    }
    const uint8_t *p = data + start;
    int32_t length = (int32_t)load_u32(p + 8), last_delta = (int32_t)load_u32(p + 23), count = (int32_t)load_u32(p + 57);
    if (length < BATCH_HEADER_BYTES - BATCH_PREFIX_BYTES || length > data_size - start - BATCH_PREFIX_BYTES ||
        last_delta < 0 || count < 0 || (int64_t)load_u64(p) > INT64_MAX - last_delta) {
        return 0;
    }
    *size = (Py_ssize_t)length + BATCH_PREFIX_BYTES;
    return 1;
}

/* read(data, offset) */
static PyObject *reader_read(BatchReader *self, PyObject *const *args, Py_ssize_t arg_count) {
    if (arg_count != 2) {
        PyErr_Format(PyExc_TypeError, "read takes data and an offset, not %zd arguments", arg_count);
        return NULL;
    }
    Py_ssize_t start = PyNumber_AsSsize_t(args[1], PyExc_OverflowError), size = 0;
    if (start == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_FULL_RO) < 0) {
        return NULL;
    }
    PyObject *batch = NULL;
    if (is_of_bytes(&buffer) && has_batch(buffer.buf, buffer.len, start, &size)) {
        batch = make_batch(self, (const uint8_t *)buffer.buf + start);
        PyObject *raw = batch == NULL ? NULL : view_of(args[0], &buffer, start, size);
        if (raw == NULL) {
            Py_CLEAR(batch);
        } else {
            *slot_of(batch, self->slots[BATCH_SLOTS - 1]) = raw;
        }
    }
    PyBuffer_Release(&buffer);
    if (batch == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return batch;
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)(void (*)(void))reader_read, METH_FASTCALL,
     "read(data, offset) -> the batch of magic 2 at an offset, or None when the pure code must read it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads the headers of batches of magic 2."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "kwire.accelerator.native.BatchReader",
    .basicsize = sizeof(BatchReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};

int add_batch_reader(PyObject *module) {
    return add_type(module, &reader_spec);
}

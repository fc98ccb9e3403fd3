/* Writes the records of a batch: measures all of them, allocates once, and fills. Records of an unusual type, and
   offsets or sizes out of their range, give NULL without an exception; the pure code then writes, or raises.

   No Python code runs between measuring and filling, so nothing that was measured can change. */
#include "plan.h"
#include "records.h"

/* What is known of a record after it was measured. */
typedef struct {
    uint64_t timestamp_raw; /* The delta, zigzag-encoded. */
    uint32_t offset_raw;
    uint32_t size; /* Without its own varint. */
} Measure;

/* Small batches are measured without an allocation. */
#define MEASURES_ON_STACK 32

static inline Py_ssize_t varint_size(uint64_t raw) {
    Py_ssize_t size = 1;
    while (raw > 127) {
        raw >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *put_varint(uint8_t *p, uint64_t raw) {
    while (raw > 127) {
        *p++ = (uint8_t)(raw | 128);
        raw >>= 7;
    }
    *p++ = (uint8_t)raw;
    return p;
}

/* The size of content behind its length; -1 when no batch can hold it. */
static inline Py_ssize_t framed_size(Py_ssize_t size) {
    return size > INT32_MAX ? -1 : varint_size((uint64_t)size << 1) + size;
}

static inline uint8_t *put_framed(uint8_t *p, const void *data, Py_ssize_t size) {
    p = put_varint(p, (uint64_t)size << 1);
    memcpy(p, data, (size_t)size);
    return p + size;
}

/* Of a key or value; -1 for another type. */
static inline Py_ssize_t measure_blob(PyObject *blob) {
    if (blob == Py_None) {
        return 1;
    }
    return blob != NULL && PyBytes_CheckExact(blob) ? framed_size(PyBytes_GET_SIZE(blob)) : -1;
}

static inline uint8_t *put_blob(uint8_t *p, PyObject *blob) {
    if (blob == Py_None) {
        *p = 1;
        return p + 1;
    }
    return put_framed(p, PyBytes_AS_STRING(blob), PyBytes_GET_SIZE(blob));
}

/* The UTF-8 of a name; Python keeps it in names that are not ASCII, so that it stays valid. */
static inline const char *name_bytes(PyObject *name, Py_ssize_t *size) {
    if (PyUnicode_IS_COMPACT_ASCII(name)) {
        *size = PyUnicode_GET_LENGTH(name);
        return (const char *)PyUnicode_1BYTE_DATA(name);
    }
    return PyUnicode_AsUTF8AndSize(name, size);
}

static Py_ssize_t measure_headers(PyObject *headers) {
    if (headers == NULL || !PyTuple_CheckExact(headers)) {
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(headers);
    if (count > INT32_MAX) {
        return -1;
    }
    Py_ssize_t total = varint_size((uint64_t)count << 1);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *header = PyTuple_GET_ITEM(headers, i);
        if (!PyTuple_CheckExact(header) || PyTuple_GET_SIZE(header) != 2 ||
            !PyUnicode_CheckExact(PyTuple_GET_ITEM(header, 0))) {
            return -1;
        }
        Py_ssize_t name_size;
        if (name_bytes(PyTuple_GET_ITEM(header, 0), &name_size) == NULL) {
            if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
                PyErr_Clear();
            }
            return -1;
        }
        Py_ssize_t name = framed_size(name_size);
        Py_ssize_t value = measure_blob(PyTuple_GET_ITEM(header, 1));
        if (name < 0 || value < 0 || total > INT32_MAX - name || total + name > INT32_MAX - value) {
            return -1;
        }
        total += name + value;
    }
    return total;
}

static uint8_t *put_headers(uint8_t *p, PyObject *headers) {
    Py_ssize_t count = PyTuple_GET_SIZE(headers);
    p = put_varint(p, (uint64_t)count << 1);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *header = PyTuple_GET_ITEM(headers, i);
        Py_ssize_t size;
        const char *name = name_bytes(PyTuple_GET_ITEM(header, 0), &size);
        p = put_framed(p, name, size);
        p = put_blob(p, PyTuple_GET_ITEM(header, 1));
    }
    return p;
}

/* A number of a record; 0 when it is none, or beyond 64 bits. */
static inline int number_of(PyObject *record, Py_ssize_t slot, int64_t *number) {
    PyObject *value = *slot_of(record, slot);
    if (value == NULL || !PyLong_Check(value)) {
        return 0;
    }
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

/* All bytes of a record with its own varint; -1 when the pure code must write it. */
static Py_ssize_t measure_record(const RecordLayout *layout, PyObject *record, Measure *measure) {
    Py_ssize_t key = measure_blob(*slot_of(record, layout->key));
    Py_ssize_t value = measure_blob(*slot_of(record, layout->value));
    Py_ssize_t headers = measure_headers(*slot_of(record, layout->headers));
    if (key < 0 || value < 0 || headers < 0) {
        return -1;
    }
    Py_ssize_t size = 1 + varint_size(measure->timestamp_raw) + varint_size(measure->offset_raw);
    if (key > INT32_MAX - size || value > INT32_MAX - size - key || headers > INT32_MAX - size - key - value) {
        return -1;
    }
    size += key + value + headers;
    measure->size = (uint32_t)size;
    return varint_size((uint64_t)size << 1) + size;
}

/* Offset and timestamp against those before; 0 when the pure code must write them. */
static int measure_position(const RecordLayout *layout, PyObject *record, BatchSpan *span, int64_t *previous,
                            int is_first, Measure *measure) {
    int64_t offset, timestamp;
    if (!number_of(record, layout->offset, &offset) || !number_of(record, layout->timestamp, &timestamp)) {
        return 0;
    }
    if (is_first) {
        if (!span->has_base_offset) {
            span->base_offset = offset;
        }
        if (!span->has_base_timestamp) {
            span->base_timestamp = timestamp;
        }
    }
    if (is_first ? offset < span->base_offset : offset <= *previous) {
        return 0;
    }
    uint64_t delta = (uint64_t)offset - (uint64_t)span->base_offset;
    if (delta > INT32_MAX) {
        return 0;
    }
    *previous = offset;
    if (!span->has_max_timestamp && (is_first || timestamp > span->max_timestamp)) {
        span->max_timestamp = timestamp;
    }
    measure->offset_raw = (uint32_t)delta << 1;
    measure->timestamp_raw = encode_zigzag((int64_t)((uint64_t)timestamp - (uint64_t)span->base_timestamp));
    return 1;
}

/* The bytes of all records; -1 when the pure code must write them. */
static Py_ssize_t measure_records(const RecordLayout *layout, PyObject **items, Py_ssize_t count, BatchSpan *span,
                                  Measure *measures) {
    Py_ssize_t total = 0;
    int64_t previous = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (Py_TYPE(items[i]) != layout->type ||
            !measure_position(layout, items[i], span, &previous, i == 0, &measures[i])) {
            return -1;
        }
        Py_ssize_t size = measure_record(layout, items[i], &measures[i]);
        if (size < 0 || size > INT32_MAX - BATCH_HEADER_BYTES - total) {
            return -1;
        }
        total += size;
    }
    if (!span->has_last_offset) {
        span->last_offset = previous;
    }
    if (span->last_offset < previous ||
        (uint64_t)span->last_offset - (uint64_t)span->base_offset > INT32_MAX) {
        return -1;
    }
    return total;
}

static uint8_t *put_record(uint8_t *p, const RecordLayout *layout, PyObject *record, const Measure *measure) {
    p = put_varint(p, (uint64_t)measure->size << 1);
    *p++ = 0; /* The attributes, which no version uses. */
    p = put_varint(p, measure->timestamp_raw);
    p = put_varint(p, measure->offset_raw);
    p = put_blob(p, *slot_of(record, layout->key));
    p = put_blob(p, *slot_of(record, layout->value));
    return put_headers(p, *slot_of(record, layout->headers));
}

PyObject *write_records(const RecordLayout *layout, PyObject *records, Py_ssize_t header_size, BatchSpan *span) {
    if (!PyList_CheckExact(records) && !PyTuple_CheckExact(records)) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(records);
    PyObject **items = PySequence_Fast_ITEMS(records);
    if (count == 0 || count > INT32_MAX / RECORD_BYTES_MIN) {
        return NULL;
    }
    Measure on_stack[MEASURES_ON_STACK];
    Measure *measures = count > MEASURES_ON_STACK ? PyMem_Malloc((size_t)count * sizeof(Measure)) : on_stack;
    if (measures == NULL) {
        return PyErr_NoMemory();
    }
    Py_ssize_t size = measure_records(layout, items, count, span, measures);
    PyObject *data = size < 0 ? NULL : PyBytes_FromStringAndSize(NULL, header_size + size);
    if (data != NULL) {
        uint8_t *p = (uint8_t *)PyBytes_AS_STRING(data) + header_size;
        for (Py_ssize_t i = 0; i < count; i++) {
            p = put_record(p, layout, items[i], &measures[i]);
        }
    }
    if (measures != on_stack) {
        PyMem_Free(measures);
    }
    return data;
}

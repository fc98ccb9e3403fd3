/* Reads the records of a batch. Bytes that are not as they should be give NULL without an exception; the pure code then
   reads them, leniently where it is asked to, or finds the field and the offset of the error. */
#include "plan.h"
#include "records.h"

/* Names of headers that are kept while a batch is read: the records of a batch mostly have the same. */
#define NAMES_KEPT 8

/* One reading. `names` are borrowed from the records, which live as long as it goes on. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    PyObject *names[NAMES_KEPT];
    PyObject *no_headers;
    PyObject *timestamp; /* Of the record before, borrowed. */
    int64_t timestamp_value;
    int is_strict;
} Reading;

static inline Py_ssize_t next_length(Reading *reading) {
    return reading->is_strict ? read_blob_length(&reading->at, reading->end)
                              : read_lenient_length(&reading->at, reading->end);
}

static inline PyObject *new_ref(PyObject *object) {
    Py_INCREF(object);
    return object;
}

/* The bytes of a key or value, or None. */
static inline PyObject *read_blob(Reading *reading) {
    Py_ssize_t size = next_length(reading);
    if (size < 0) {
        return size == -1 ? new_ref(Py_None) : NULL;
    }
    const uint8_t *start = reading->at;
    reading->at += size;
    return PyBytes_FromStringAndSize((const char *)start, size);
}

/* The name of a header; that at the same place of an earlier record if it is equal. */
static PyObject *read_name(Reading *reading, Py_ssize_t index) {
    Py_ssize_t size = next_length(reading);
    if (size < 0) {
        return NULL;
    }
    const uint8_t *start = reading->at;
    reading->at += size;
    PyObject **kept = &reading->names[index % NAMES_KEPT];
    if (*kept != NULL && PyUnicode_GET_LENGTH(*kept) == size &&
        memcmp(PyUnicode_1BYTE_DATA(*kept), start, (size_t)size) == 0) {
        return new_ref(*kept);
    }
    PyObject *name = make_text(start, size);
    if (name == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            return NULL;
        }
        PyErr_Clear();
        return reading->is_strict ? NULL : PyUnicode_DecodeUTF8((const char *)start, size, "replace");
    }
    if (PyUnicode_IS_COMPACT_ASCII(name)) {
        *kept = name;
    }
    return name;
}

static PyObject *read_header(Reading *reading, Py_ssize_t index) {
    PyObject *name = read_name(reading, index);
    if (name == NULL) {
        return NULL;
    }
    PyObject *value = read_blob(reading);
    PyObject *header = value == NULL ? NULL : PyTuple_New(2);
    if (header == NULL) {
        Py_DECREF(name); /* It may be kept, but nothing more is read. */
        Py_XDECREF(value);
        return NULL;
    }
    PyTuple_SET_ITEM(header, 0, name);
    PyTuple_SET_ITEM(header, 1, value);
    /* It refers to nothing that refers back: what the collector does with such a tuple when it meets it. */
    PyObject_GC_UnTrack(header);
    return header;
}

static PyObject *read_headers(Reading *reading) {
    uint64_t raw;
    if (!read_varint(&reading->at, reading->end, 32, &raw) || raw & 1) {
        return NULL;
    }
    Py_ssize_t count = (Py_ssize_t)(raw >> 1);
    if (count == 0) {
        return new_ref(reading->no_headers);
    }
    if (count > (reading->end - reading->at) / HEADER_BYTES_MIN) {
        return NULL;
    }
    PyObject *headers = PyTuple_New(count);
    if (headers == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *header = read_header(reading, i);
        if (header == NULL) {
            Py_DECREF(headers);
            return NULL;
        }
        PyTuple_SET_ITEM(headers, i, header);
    }
    PyObject_GC_UnTrack(headers);
    return headers;
}

/* The timestamp as an object; that of the record before if it is the same. */
static inline PyObject *make_timestamp(Reading *reading, int64_t value) {
    if (reading->timestamp != NULL && reading->timestamp_value == value) {
        return new_ref(reading->timestamp);
    }
    PyObject *timestamp = PyLong_FromLongLong(value);
    reading->timestamp = timestamp;
    reading->timestamp_value = value;
    return timestamp;
}

static PyObject *read_record(Reading *reading, const RecordLayout *layout, const BatchBase *base) {
    uint64_t size, timestamp_delta, offset_delta;
    if (!read_varint(&reading->at, reading->end, 32, &size) || size & 1 ||
        (Py_ssize_t)(size >> 1) > reading->end - reading->at || size < 2) {
        return NULL;
    }
    const uint8_t *record_end = reading->at + (size >> 1);
    reading->at++; /* The attributes, which no version uses. */
    if (!read_varint(&reading->at, reading->end, 64, &timestamp_delta) ||
        !read_varint(&reading->at, reading->end, 32, &offset_delta)) {
        return NULL;
    }
    PyObject *record = layout->type->tp_alloc(layout->type, 0);
    if (record == NULL) {
        return NULL;
    }
    PyObject *part = read_blob(reading);
    if (part == NULL) {
        goto failed;
    }
    *slot_of(record, layout->key) = part;
    part = read_blob(reading);
    if (part == NULL) {
        goto failed;
    }
    *slot_of(record, layout->value) = part;
    part = read_headers(reading);
    if (part == NULL) {
        goto failed;
    }
    *slot_of(record, layout->headers) = part;
    part = PyLong_FromLongLong(add_int64(base->offset, decode_zigzag(offset_delta)));
    if (part == NULL) {
        goto failed;
    }
    *slot_of(record, layout->offset) = part;
    part = base->append_time != NULL ? new_ref(base->append_time)
                                     : make_timestamp(reading, add_int64(base->timestamp, decode_zigzag(timestamp_delta)));
    if (part == NULL) {
        goto failed;
    }
    *slot_of(record, layout->timestamp) = part;
    if (reading->at == record_end) {
        return record;
    }

failed:
    Py_DECREF(record);
    return NULL;
}

PyObject *read_records(const RecordLayout *layout, const uint8_t *data, Py_ssize_t size, const BatchBase *base,
                       int is_strict) {
    if (base->count > size / RECORD_BYTES_MIN) {
        return NULL;
    }
    Reading reading = {.at = data, .end = data + size, .no_headers = PyTuple_New(0), .is_strict = is_strict};
    PyObject *records = reading.no_headers == NULL ? NULL : PyList_New(base->count);
    for (Py_ssize_t i = 0; records != NULL && i < base->count; i++) {
        PyObject *record = read_record(&reading, layout, base);
        if (record == NULL) {
            Py_CLEAR(records);
            break;
        }
        PyList_SET_ITEM(records, i, record);
    }
    Py_XDECREF(reading.no_headers);
    if (records != NULL && reading.at != reading.end) {
        Py_CLEAR(records);
    }
    return records;
}

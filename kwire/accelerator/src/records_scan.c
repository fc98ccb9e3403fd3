/* Scans the records of a produced batch: the values that an append needs, without an object for any record. */
#include "records.h"

typedef struct {
    int64_t timestamp_min;
    int64_t timestamp_max;
    int64_t header_count; /* Of all records. */
    int64_t size_max;     /* Of a record, in bytes behind its length. */
    int is_keyless;       /* A record has no key. */
    int is_consecutive;   /* The offset deltas are 0, 1, 2 and so on. */
} RecordScan;

/* Skips a key or value; -1 for null, -2 if it is invalid. */
static inline int skip_blob(const uint8_t **position, const uint8_t *end) {
    Py_ssize_t size = read_lenient_length(position, end);
    if (size < 0) {
        return (int)size;
    }
    *position += size;
    return 0;
}

/* Kafka accepts names that are not UTF-8, but no null. */
static int skip_headers(const uint8_t **position, const uint8_t *end, int64_t *header_count) {
    uint64_t raw;
    if (!read_varint(position, end, 32, &raw) || raw & 1 ||
        (Py_ssize_t)(raw >> 1) > (end - *position) / HEADER_BYTES_MIN) {
        return 0;
    }
    *header_count += (int64_t)(raw >> 1);
    for (uint64_t count = raw >> 1; count > 0; count--) {
        if (skip_blob(position, end) != 0 || skip_blob(position, end) == -2) {
            return 0;
        }
    }
    return 1;
}

/* 0 when the bytes are not as they should be. Needs no GIL. */
static int scan_payload(const uint8_t *p, const uint8_t *end, Py_ssize_t count, int64_t base_timestamp,
                        RecordScan *scan) {
    scan->timestamp_min = INT64_MAX;
    scan->timestamp_max = INT64_MIN;
    scan->header_count = 0;
    scan->size_max = 0;
    scan->is_keyless = 0;
    scan->is_consecutive = 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t size, timestamp_delta, offset_delta;
        if (!read_varint(&p, end, 32, &size) || size & 1 || (Py_ssize_t)(size >> 1) > end - p || size < 2) {
            return 0;
        }
        const uint8_t *record_end = p + (size >> 1);
        if ((int64_t)(size >> 1) > scan->size_max) {
            scan->size_max = (int64_t)(size >> 1);
        }
        p++; /* The attributes, which no version uses. */
        if (!read_varint(&p, end, 64, &timestamp_delta) || !read_varint(&p, end, 32, &offset_delta)) {
            return 0;
        }
        int64_t timestamp = add_int64(base_timestamp, decode_zigzag(timestamp_delta));
        if (timestamp < scan->timestamp_min) {
            scan->timestamp_min = timestamp;
        }
        if (timestamp > scan->timestamp_max) {
            scan->timestamp_max = timestamp;
        }
        scan->is_consecutive &= offset_delta == (uint64_t)i << 1;
        int key = skip_blob(&p, end);
        scan->is_keyless |= key == -1;
        if (key == -2 || skip_blob(&p, end) == -2 || !skip_headers(&p, end, &scan->header_count) || p != record_end) {
            return 0;
        }
    }
    return p == end;
}

PyObject *scan_records(PyObject *module, PyObject *const *args, Py_ssize_t arg_count) {
    (void)module;
    if (arg_count != 3) {
        PyErr_Format(PyExc_TypeError, "scan_records takes data, a count and a timestamp, not %zd arguments", arg_count);
        return NULL;
    }
    Py_ssize_t count = PyLong_AsSsize_t(args[1]);
    if (count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    long long base_timestamp = PyLong_AsLongLong(args[2]);
    if (base_timestamp == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    RecordScan scan;
    const uint8_t *data = buffer.buf;
    int is_valid = count > 0 && count <= buffer.len / RECORD_BYTES_MIN;
    if (is_valid && buffer.len > GIL_RELEASE_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        is_valid = scan_payload(data, data + buffer.len, count, base_timestamp, &scan);
        Py_END_ALLOW_THREADS
    } else if (is_valid) {
        is_valid = scan_payload(data, data + buffer.len, count, base_timestamp, &scan);
    }
    PyBuffer_Release(&buffer);
    if (!is_valid) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("LLNNLL", (long long)scan.timestamp_min, (long long)scan.timestamp_max,
                         PyBool_FromLong(scan.is_keyless), PyBool_FromLong(scan.is_consecutive),
                         (long long)scan.header_count, (long long)scan.size_max);
}

/* The records of a batch of magic 2: what reading, writing and scanning share. kwire/records/record_decoder.py has the
   layout. */
#ifndef KWIRE_RECORDS_H
#define KWIRE_RECORDS_H

#include "native.h"

/* The header of a batch, the bytes of base offset and length in front of what the length counts, and where the bytes
   begin that the checksum covers; kwire/records/batch.py has the fields. */
#define BATCH_HEADER_BYTES 61
#define BATCH_PREFIX_BYTES 12
#define BATCH_CRC_AT 17
#define BATCH_CRC_START 21

/* Size, attributes, timestamp delta, offset delta, the lengths of key and value, and the count of headers. */
#define RECORD_BYTES_MIN 7

/* The length of a key and that of a value. */
#define HEADER_BYTES_MIN 2

/* The class of records and where its slots are. */
typedef struct {
    PyTypeObject *type;
    Py_ssize_t offset;
    Py_ssize_t timestamp;
    Py_ssize_t key;
    Py_ssize_t value;
    Py_ssize_t headers;
} RecordLayout;

/* The header fields that the records of a batch refer to. */
typedef struct {
    Py_ssize_t count;
    int64_t offset;
    int64_t timestamp;
    PyObject *append_time; /* The timestamp of all records, borrowed; NULL if they have their own. */
} BatchBase;

/* The header fields of a new batch. Those that the caller may leave open follow from its records. */
typedef struct {
    int64_t base_offset;
    int64_t last_offset;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int has_base_offset;
    int has_last_offset;
    int has_base_timestamp;
    int has_max_timestamp;
} BatchSpan;

/* A sum or difference that wraps around at 64 bits, as in Java. */
static inline int64_t add_int64(int64_t left, int64_t right) {
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

static inline uint64_t encode_zigzag(int64_t value) {
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t decode_zigzag(uint64_t raw) {
    return (int64_t)(raw >> 1 ^ (0 - (raw & 1)));
}

/* The raw value of a varint of at most 32 or 64 bits, still zigzag-encoded; 0 when the bytes end before it or it is
   wider. */
static inline int read_raw_varint(const uint8_t **position, const uint8_t *end, int bits, uint64_t *raw) {
    const uint8_t *p = *position;
    uint64_t result = 0;
    for (int shift = 0; shift < bits; shift += 7) {
        if (p >= end) {
            return 0;
        }
        uint8_t byte = *p++;
        /* The last byte has only the bits that are left. */
        if (bits - shift < 7 && byte >> (bits - shift)) {
            return 0;
        }
        result |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *position = p;
            *raw = result;
            return 1;
        }
    }
    return 0;
}

/* The same; most varints have one byte. */
static inline int read_varint(const uint8_t **position, const uint8_t *end, int bits, uint64_t *raw) {
    if (*position < end && **position < 128) {
        *raw = *(*position)++;
        return 1;
    }
    return read_raw_varint(position, end, bits, raw);
}

/* The length of a key or value: -1 for null, -2 for one that is negative, unreadable or beyond the end. */
static inline Py_ssize_t read_blob_length(const uint8_t **position, const uint8_t *end) {
    uint64_t raw;
    if (!read_varint(position, end, 32, &raw)) {
        return -2;
    }
    if (raw & 1) {
        return raw == 1 ? -1 : -2;
    }
    return (Py_ssize_t)(raw >> 1) <= end - *position ? (Py_ssize_t)(raw >> 1) : -2;
}

/* The same as Kafka reads it: any negative length is null. */
static inline Py_ssize_t read_lenient_length(const uint8_t **position, const uint8_t *end) {
    uint64_t raw;
    if (!read_varint(position, end, 32, &raw)) {
        return -2;
    }
    if (raw & 1) {
        return -1;
    }
    return (Py_ssize_t)(raw >> 1) <= end - *position ? (Py_ssize_t)(raw >> 1) : -2;
}

/* The slots of a class that has no others; -1 with TypeError or AttributeError. (records.c) */
int find_slots(PyTypeObject *type, const char *const *names, Py_ssize_t *const *slots, Py_ssize_t count);

/* Adds the type BatchReader. (records_header.c) */
int add_batch_reader(PyObject *module);

/* The records as a list; NULL, with or without an exception, when the bytes are not as they should be. is_strict: 0 reads
   as Kafka does, so that any negative length is null, and names of headers need not be UTF-8. (records_read.c) */
PyObject *read_records(const RecordLayout *layout, const uint8_t *data, Py_ssize_t size, const BatchBase *base,
                       int is_strict);

/* A bytes object with room for a header of `header_size` bytes and the records behind it, and what of the span was left
   open. NULL, with or without an exception, when the pure code must write. (records_write.c) */
PyObject *write_records(const RecordLayout *layout, PyObject *records, Py_ssize_t header_size, BatchSpan *span);

/* scan_records(data, count, base_timestamp). (records_scan.c) */
PyObject *scan_records(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* read_record_columns(data, begins, ends, name_prefix, is_decompressed). (records_columns.c) */
PyObject *read_record_columns(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* check_batches(data, begins, ends), and what it needs before its first call. (records_check.c) */
PyObject *check_batches(PyObject *module, PyObject *const *args, Py_ssize_t count);
void prepare_checksums(void);

#endif

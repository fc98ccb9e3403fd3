/* Reads the records of many partitions into tables of numbers: where keys, values and the names of headers are, deltas
   and sizes. Partitions with anything unusual are left to the Python code. */
#include "records.h"

/* Up to the magic, which all formats have at this offset. */
#define BATCH_START_BYTES 17

/* Below this, the sum of four numbers fits 64 bits. */
#define SAFE_NUMBER ((int64_t)1 << 61)

#define CODEC_BITS 7

/* Rows of numbers; `reserved` rows have memory. */
typedef struct {
    int64_t *numbers;
    Py_ssize_t width;
    Py_ssize_t rows;
    Py_ssize_t reserved;
} Table;

/* kwire/capture/columnar/levels/record_tables.py has the same columns. */
enum { BATCH_COLUMNS = 10, RECORD_COLUMNS = 8, HEADER_COLUMNS = 3 };

typedef struct {
    const uint8_t *data;
    const uint8_t *prefix; /* Headers whose names begin with it are unusual. */
    Py_ssize_t prefix_size;
    int is_decompressed; /* Batches have the codec that their records had. */
    Table batches;
    Table records;
    Table headers;
    int is_out_of_memory;
} ColumnReading;

/* The next row, not filled; NULL when there is no memory. Needs no GIL. */
static inline int64_t *add_row(ColumnReading *reading, Table *table) {
    if (table->rows == table->reserved) {
        Py_ssize_t reserved = table->reserved * 2 + 64;
        int64_t *numbers = PyMem_RawRealloc(table->numbers, (size_t)(reserved * table->width) * sizeof(int64_t));
        if (numbers == NULL) {
            reading->is_out_of_memory = 1;
            return NULL;
        }
        table->numbers = numbers;
        table->reserved = reserved;
    }
    return table->numbers + table->width * table->rows++;
}

/* A key or value: where it is and its size, -1 for null; 0 if it is invalid. */
static inline int take_blob(const uint8_t **p, const uint8_t *end, const uint8_t *data, int64_t *at, int64_t *size) {
    Py_ssize_t length = read_blob_length(p, end);
    if (length == -2) {
        return 0;
    }
    *at = *p - data;
    *size = length;
    if (length > 0) {
        *p += length;
    }
    return 1;
}

/* Whether a name is ASCII and does not begin with the prefix. */
static int is_usual_name(const ColumnReading *reading, const uint8_t *name, Py_ssize_t size) {
    uint8_t high = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        high |= name[i];
    }
    return high < 128 && !(size >= reading->prefix_size &&
                           memcmp(name, reading->prefix, (size_t)reading->prefix_size) == 0);
}

static int take_headers(ColumnReading *reading, const uint8_t **p, const uint8_t *end, int64_t *count) {
    uint64_t raw;
    if (!read_varint(p, end, 32, &raw) || raw & 1 || (Py_ssize_t)(raw >> 1) > (end - *p) / HEADER_BYTES_MIN) {
        return 0;
    }
    *count = (int64_t)(raw >> 1);
    for (int64_t i = 0; i < *count; i++) {
        int64_t name_at, name_size, value_at, value_size;
        if (!take_blob(p, end, reading->data, &name_at, &name_size) || name_size < 0 ||
            !is_usual_name(reading, reading->data + name_at, (Py_ssize_t)name_size) ||
            !take_blob(p, end, reading->data, &value_at, &value_size)) {
            return 0;
        }
        int64_t *row = add_row(reading, &reading->headers);
        if (row == NULL) {
            return 0;
        }
        row[0] = name_at;
        row[1] = name_size;
        row[2] = value_size;
    }
    return 1;
}

static int take_record(ColumnReading *reading, const uint8_t **p, const uint8_t *end, int64_t batch) {
    uint64_t size, timestamp_delta, offset_delta;
    if (!read_varint(p, end, 32, &size) || size & 1 || (Py_ssize_t)(size >> 1) > end - *p || size < 2) {
        return 0;
    }
    const uint8_t *record_end = *p + (size >> 1);
    (*p)++; /* The attributes, which no version uses. */
    int64_t *row = add_row(reading, &reading->records);
    if (row == NULL || !read_varint(p, end, 64, &timestamp_delta) || !read_varint(p, end, 32, &offset_delta)) {
        return 0;
    }
    row[0] = batch;
    row[1] = decode_zigzag(timestamp_delta);
    row[2] = decode_zigzag(offset_delta);
    return take_blob(p, end, reading->data, &row[3], &row[4]) && take_blob(p, end, reading->data, &row[5], &row[6]) &&
           take_headers(reading, p, end, &row[7]) && *p == record_end;
}

/* The batch of `size` bytes; 0 when it is unusual. */
static int take_batch(ColumnReading *reading, const uint8_t *start, Py_ssize_t size, Py_ssize_t partition,
                      int64_t *before) {
    int64_t base_offset = (int64_t)load_u64(start), base_timestamp = (int64_t)load_u64(start + 27);
    int16_t attributes = (int16_t)load_u16(start + 21);
    int32_t last_delta = (int32_t)load_u32(start + 23), count = (int32_t)load_u32(start + 57);
    int is_compressed = attributes & CODEC_BITS && !reading->is_decompressed;
    if (last_delta < 0 || count < 0 || is_compressed || base_offset <= -SAFE_NUMBER || base_offset >= SAFE_NUMBER ||
        base_timestamp <= -SAFE_NUMBER || base_timestamp >= SAFE_NUMBER) {
        return 0;
    }
    int64_t *row = add_row(reading, &reading->batches);
    if (row == NULL) {
        return 0;
    }
    const uint8_t *p = start + BATCH_HEADER_BYTES, *end = start + size;
    row[0] = partition;
    row[1] = *before;
    row[2] = p - reading->data;
    row[3] = end - reading->data;
    row[4] = count;
    row[5] = base_offset;
    row[6] = base_timestamp;
    row[7] = (int64_t)load_u64(start + 35);
    row[8] = attributes;
    row[9] = (int64_t)load_u64(start + 43);
    *before += count;
    if (count > (end - p) / RECORD_BYTES_MIN) {
        return 0;
    }
    for (int32_t i = 0; i < count; i++) {
        if (!take_record(reading, &p, end, reading->batches.rows - 1)) {
            return 0;
        }
    }
    return count == 0 || p == end; /* Kafka does not read behind the header of a batch without records. */
}

/* All complete batches of a partition; 0, and nothing of it in the tables, when anything is unusual. */
static int take_partition(ColumnReading *reading, const uint8_t *p, const uint8_t *end, Py_ssize_t partition) {
    Py_ssize_t batches = reading->batches.rows, records = reading->records.rows, headers = reading->headers.rows;
    int64_t before = 0;
    while (end - p >= BATCH_START_BYTES) {
        int64_t size = (int64_t)BATCH_PREFIX_BYTES + (int32_t)load_u32(p + 8);
        int is_usual = p[16] == 2 && size >= BATCH_HEADER_BYTES;
        if (is_usual && size > end - p) {
            break; /* A truncated batch, as a Fetch response may have it at its end. */
        }
        if (!is_usual || !take_batch(reading, p, (Py_ssize_t)size, partition, &before)) {
            reading->batches.rows = batches;
            reading->records.rows = records;
            reading->headers.rows = headers;
            return 0;
        }
        p += size;
    }
    return 1;
}

/* Needs no GIL. */
static void take_partitions(ColumnReading *reading, Py_ssize_t data_size, const int64_t *at, const int64_t *end,
                            Py_ssize_t count, char *is_read) {
    for (Py_ssize_t i = 0; i < count && !reading->is_out_of_memory; i++) {
        if (end[i] <= at[i]) {
            is_read[i] = 1; /* No records. */
        } else {
            is_read[i] = at[i] >= 0 && end[i] <= data_size &&
                         take_partition(reading, reading->data + at[i], reading->data + end[i], i);
        }
    }
}

static PyObject *table_bytes(const Table *table) {
    return PyBytes_FromStringAndSize((const char *)table->numbers,
                                     table->rows * table->width * (Py_ssize_t)sizeof(int64_t));
}

static PyObject *read_columns(const Py_buffer *buffers, int is_decompressed) {
    Py_ssize_t count = buffers[1].len / (Py_ssize_t)sizeof(int64_t);
    if (buffers[1].len != buffers[2].len || buffers[1].len % (Py_ssize_t)sizeof(int64_t) ||
        (uintptr_t)buffers[1].buf % sizeof(int64_t) || (uintptr_t)buffers[2].buf % sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "begins and ends are arrays of int64 of one size");
        return NULL;
    }
    PyObject *is_read = PyBytes_FromStringAndSize(NULL, count);
    if (is_read == NULL) {
        return NULL;
    }
    ColumnReading reading = {
        .data = buffers[0].buf,
        .prefix = buffers[3].buf,
        .prefix_size = buffers[3].len,
        .is_decompressed = is_decompressed,
        .batches = {.width = BATCH_COLUMNS},
        .records = {.width = RECORD_COLUMNS},
        .headers = {.width = HEADER_COLUMNS},
    };
    Py_BEGIN_ALLOW_THREADS
    take_partitions(&reading, buffers[0].len, buffers[1].buf, buffers[2].buf, count, PyBytes_AS_STRING(is_read));
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (reading.is_out_of_memory) {
        PyErr_NoMemory();
        Py_DECREF(is_read);
    } else {
        result = Py_BuildValue("NNNN", is_read, table_bytes(&reading.batches), table_bytes(&reading.records),
                               table_bytes(&reading.headers));
    }
    PyMem_RawFree(reading.batches.numbers);
    PyMem_RawFree(reading.records.numbers);
    PyMem_RawFree(reading.headers.numbers);
    return result;
}

PyObject *read_record_columns(PyObject *module, PyObject *const *args, Py_ssize_t arg_count) {
    (void)module;
    if (arg_count != 5) {
        PyErr_Format(PyExc_TypeError, "read_record_columns takes 5 arguments, not %zd", arg_count);
        return NULL;
    }
    int is_decompressed = PyObject_IsTrue(args[4]);
    if (is_decompressed < 0) {
        return NULL;
    }
    Py_buffer buffers[4];
    int taken = 0;
    while (taken < 4 && PyObject_GetBuffer(args[taken], &buffers[taken], PyBUF_SIMPLE) == 0) {
        taken++;
    }
    PyObject *result = taken == 4 ? read_columns(buffers, is_decompressed) : NULL;
    while (taken > 0) {
        PyBuffer_Release(&buffers[--taken]);
    }
    return result;
}

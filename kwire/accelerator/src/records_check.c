/* Checks the record batches of many bodies: whether all of a body are complete, of magic 2, and have the right checksum.
   kwire/capture/columnar/record_checks.py has the same in Python. */
#include "records.h"

#define CRC_TABLES 8

#if defined(__GNUC__) && defined(__x86_64__)
#define HAS_CRC_INSTRUCTION 1
#include <nmmintrin.h>
#endif

/* CRC-32C (Castagnoli), reflected. */
static const uint32_t polynomial = 0x82F63B78;
static uint32_t crc_tables[CRC_TABLES][256];

static void fill_crc_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        }
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < CRC_TABLES; table++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = before >> 8 ^ crc_tables[0][before & 255];
        }
    }
}

/* Eight bytes at a time, each by a table of its own. */
static uint32_t checksum_by_tables(const uint8_t *p, Py_ssize_t size) {
    uint32_t crc = UINT32_MAX;
    for (; size >= 8; p += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = crc_tables[7][low & 255] ^ crc_tables[6][low >> 8 & 255] ^ crc_tables[5][low >> 16 & 255] ^
              crc_tables[4][low >> 24] ^ crc_tables[3][p[4]] ^ crc_tables[2][p[5]] ^ crc_tables[1][p[6]] ^
              crc_tables[0][p[7]];
    }
    for (; size > 0; p++, size--) {
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *p) & 255];
    }
    return ~crc;
}

#ifdef HAS_CRC_INSTRUCTION
__attribute__((target("sse4.2"))) static uint32_t checksum_by_instruction(const uint8_t *p, Py_ssize_t size) {
    uint64_t crc = UINT32_MAX;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    uint32_t rest = (uint32_t)crc;
    for (; size > 0; p++, size--) {
        rest = _mm_crc32_u8(rest, *p);
    }
    return ~rest;
}
#endif

static uint32_t (*checksum)(const uint8_t *, Py_ssize_t) = checksum_by_tables;

void prepare_checksums(void) {
    fill_crc_tables();
#ifdef HAS_CRC_INSTRUCTION
    if (__builtin_cpu_supports("sse4.2")) {
        checksum = checksum_by_instruction;
    }
#endif
}

/* Needs no GIL. */
static int are_valid(const uint8_t *p, const uint8_t *end) {
    do {
        if (end - p < BATCH_HEADER_BYTES) {
            return 0;
        }
        int64_t size = (int64_t)BATCH_PREFIX_BYTES + (int32_t)load_u32(p + 8), base = (int64_t)load_u64(p);
        int32_t last_delta = (int32_t)load_u32(p + 23), count = (int32_t)load_u32(p + 57);
        if (p[16] != 2 || size < BATCH_HEADER_BYTES || size > end - p || last_delta < 0 || count < 0 ||
            base > INT64_MAX - last_delta ||
            checksum(p + BATCH_CRC_START, (Py_ssize_t)size - BATCH_CRC_START) != load_u32(p + BATCH_CRC_AT)) {
            return 0;
        }
        p += size;
    } while (p < end);
    return 1;
}

/* A body that is empty or not in the data is not valid. Needs no GIL. */
static void check_bodies(const uint8_t *data, Py_ssize_t data_size, const int64_t *begins, const int64_t *ends,
                         Py_ssize_t count, char *is_valid) {
    for (Py_ssize_t i = 0; i < count; i++) {
        int is_inside = begins[i] >= 0 && begins[i] <= ends[i] && ends[i] <= data_size;
        is_valid[i] = (char)(is_inside && are_valid(data + begins[i], data + ends[i]));
    }
}

static PyObject *check_buffers(const Py_buffer *buffers) {
    Py_ssize_t count = buffers[1].len / (Py_ssize_t)sizeof(int64_t);
    if (buffers[1].len != buffers[2].len || buffers[1].len % (Py_ssize_t)sizeof(int64_t) ||
        (uintptr_t)buffers[1].buf % sizeof(int64_t) || (uintptr_t)buffers[2].buf % sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "begins and ends are arrays of int64 of one size");
        return NULL;
    }
    PyObject *is_valid = PyBytes_FromStringAndSize(NULL, count);
    if (is_valid != NULL) {
        Py_BEGIN_ALLOW_THREADS
        check_bodies(buffers[0].buf, buffers[0].len, buffers[1].buf, buffers[2].buf, count, PyBytes_AS_STRING(is_valid));
        Py_END_ALLOW_THREADS
    }
    return is_valid;
}

PyObject *check_batches(PyObject *module, PyObject *const *args, Py_ssize_t arg_count) {
    (void)module;
    if (arg_count != 3) {
        PyErr_Format(PyExc_TypeError, "check_batches takes 3 arguments, not %zd", arg_count);
        return NULL;
    }
    Py_buffer buffers[3];
    int taken = 0;
    while (taken < 3 && PyObject_GetBuffer(args[taken], &buffers[taken], PyBUF_SIMPLE) == 0) {
        taken++;
    }
    PyObject *result = taken == 3 ? check_buffers(buffers) : NULL;
    while (taken > 0) {
        PyBuffer_Release(&buffers[--taken]);
    }
    return result;
}

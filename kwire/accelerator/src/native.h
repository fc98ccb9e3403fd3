/* What the source files of the extension share: state, cursors, and the entry points of each file. */
#ifndef KWIRE_NATIVE_H
#define KWIRE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* What kwire/accelerator/__init__.py expects: the same number, which changes with the functions and types. */
#define INTERFACE 5

/* Work on more bytes than this releases the GIL. */
#define GIL_RELEASE_BYTES (64 * 1024)

/* The longest string of Kafka, the maximum of int16. */
#define TEXT_BYTES_MAX 0x7FFF

/* kwire.primitives.FastPathError: input that only the schema-driven codec can explain. */
extern PyObject *fast_path_error;

/* Make a type and add it to the module; -1 with an exception. */
static inline int add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL) {
        return -1;
    }
    int status = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return status;
}

/* Big-endian numbers at any address. */
static inline uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)((uint16_t)p[0] << 8 | p[1]);
}

static inline uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t load_u64(const uint8_t *p) {
    return (uint64_t)load_u32(p) << 32 | load_u32(p + 4);
}

static inline void store_u16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline void store_u32(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

static inline void store_u64(uint8_t *p, uint64_t value) {
    store_u32(p, (uint32_t)(value >> 32));
    store_u32(p + 4, (uint32_t)value);
}

/* The bytes that are read. `at` never exceeds `end`. */
typedef struct {
    const uint8_t *data;
    Py_ssize_t at;
    Py_ssize_t end;
    PyObject *owner; /* The bytes object, borrowed. */
    PyObject *view;  /* A view of all of it, for record batches; made on first use. */
} Cursor;

/* An unsigned varint of at most 32 bits; 0 when the bytes end before it or it is wider. */
static inline int read_uvarint(Cursor *cursor, uint32_t *value) {
    uint32_t result = 0;
    Py_ssize_t at = cursor->at;
    for (int shift = 0; shift < 35; shift += 7) {
        if (at >= cursor->end) {
            return 0;
        }
        uint8_t byte = cursor->data[at++];
        if (shift == 28 && byte > 15) {
            return 0;
        }
        result |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) {
            cursor->at = at;
            *value = result;
            return 1;
        }
    }
    return 0;
}

/* The size of a string, of bytes, or the count of an array: -1 for null, lower when it is invalid. */
static inline Py_ssize_t read_length(Cursor *cursor, int is_flexible, int is_int16) {
    Py_ssize_t have = cursor->end - cursor->at;
    const uint8_t *p = cursor->data + cursor->at;
    if (is_flexible) {
        uint32_t plus_one;
        if (have > 0 && *p < 128) {
            cursor->at++;
            return (Py_ssize_t)*p - 1;
        }
        return read_uvarint(cursor, &plus_one) ? (Py_ssize_t)plus_one - 1 : -2;
    }
    if (is_int16) {
        cursor->at += 2;
        return have < 2 ? -2 : (int16_t)load_u16(p);
    }
    cursor->at += 4;
    return have < 4 ? -2 : (int32_t)load_u32(p);
}

/* Text of valid UTF-8, else NULL with UnicodeDecodeError. (text.c) */
PyObject *make_text(const uint8_t *data, Py_ssize_t size);

/* A view of a range of the bytes of a cursor, as memoryview(owner)[start:start + size]. (text.c) */
PyObject *make_view(Cursor *cursor, Py_ssize_t start, Py_ssize_t size);

/* Each adds its types and functions to the module; -1 with an exception on failure. */
int add_json(PyObject *module);
int add_messages(PyObject *module);
int add_packets(PyObject *module);
int add_records(PyObject *module);
int add_summary(PyObject *module);

#endif

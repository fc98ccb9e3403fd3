/* Finds the records of a pcap file (kwire/capture/index/scan/pcap_scanner.py has the same in Python). */
#include "native.h"

/* What the records of a file look like. */
typedef struct {
    Py_ssize_t header_size;
    Py_ssize_t captured_at; /* Where the number of captured bytes is in a header. */
    int is_big_endian;
    Py_ssize_t size_max;
} RecordLayout;

/* Offsets; `reserved` have memory. */
typedef struct {
    int64_t *offsets;
    Py_ssize_t count;
    Py_ssize_t reserved;
} Offsets;

static int add_offset(Offsets *offsets, Py_ssize_t at) {
    if (offsets->count == offsets->reserved) {
        Py_ssize_t reserved = offsets->reserved * 2 + 1024;
        int64_t *grown = PyMem_RawRealloc(offsets->offsets, (size_t)reserved * sizeof(int64_t));
        if (grown == NULL) {
            return -1;
        }
        offsets->offsets = grown;
        offsets->reserved = reserved;
    }
    offsets->offsets[offsets->count++] = at;
    return 0;
}

/* The offsets of the complete records that begin before the limit; where the first other one begins, or -1 without
   memory. Needs no GIL. */
static Py_ssize_t find_records(const uint8_t *data, Py_ssize_t size, Py_ssize_t limit, const RecordLayout *layout,
                               Offsets *offsets) {
    Py_ssize_t at = 0;
    while (at < limit && size - at >= layout->header_size) {
        const uint8_t *p = data + at + layout->captured_at;
        uint32_t captured = layout->is_big_endian
                                ? load_u32(p)
                                : (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        if ((int64_t)captured > size - at - layout->header_size || (int64_t)captured > layout->size_max) {
            break;
        }
        if (add_offset(offsets, at) < 0) {
            return -1;
        }
        at += layout->header_size + (Py_ssize_t)captured;
    }
    return at;
}

/* find_pcap_records(data, limit, (header_size, captured_at, is_big_endian, size_max)) */
static PyObject *find_pcap_records(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer buffer;
    Py_ssize_t limit;
    RecordLayout layout;
    if (!PyArg_ParseTuple(args, "y*n(nnpn):find_pcap_records", &buffer, &limit, &layout.header_size, &layout.captured_at,
                          &layout.is_big_endian, &layout.size_max)) {
        return NULL;
    }
    PyObject *result = NULL;
    if (layout.captured_at < 0 || layout.captured_at > layout.header_size - 4 || layout.header_size < 4) {
        PyErr_SetString(PyExc_ValueError, "the number of captured bytes is not in the header");
    } else {
        Offsets offsets = {NULL, 0, 0};
        Py_ssize_t end;
        Py_BEGIN_ALLOW_THREADS
        end = find_records(buffer.buf, buffer.len, limit, &layout, &offsets);
        Py_END_ALLOW_THREADS
        result = end < 0 ? PyErr_NoMemory()
                         : Py_BuildValue("y#n", offsets.count ? (const char *)offsets.offsets : "",
                                         offsets.count * (Py_ssize_t)sizeof(int64_t), end);
        PyMem_RawFree(offsets.offsets);
    }
    PyBuffer_Release(&buffer);
    return result;
}

static PyMethodDef functions[] = {
    {"find_pcap_records", find_pcap_records, METH_VARARGS,
     "find_pcap_records(data, limit, (header_size, captured_at, is_big_endian, size_max)) -> the offsets of the complete "
     "records that begin before the limit, as bytes of int64, and where the first other record begins."},
    {NULL, NULL, 0, NULL},
};

int add_packets(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}

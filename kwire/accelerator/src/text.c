/* Text and views: the values that most messages have most of. */
#include "native.h"

PyObject *make_text(const uint8_t *data, Py_ssize_t size) {
    uint64_t high = 0;
    Py_ssize_t at = 0;
    if (size < 2) {
        /* Python shares the empty string and those of one character. */
        return PyUnicode_DecodeUTF8((const char *)data, size, "strict");
    }
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, data + at, 8);
        high |= word;
    }
    for (; at < size; at++) {
        high |= data[at];
    }
    if (high & 0x8080808080808080ULL) {
        return PyUnicode_DecodeUTF8((const char *)data, size, "strict");
    }
    PyObject *text = PyUnicode_New(size, 127);
    if (text != NULL) {
        memcpy(PyUnicode_1BYTE_DATA(text), data, (size_t)size);
    }
    return text;
}

PyObject *make_view(Cursor *cursor, Py_ssize_t start, Py_ssize_t size) {
    if (cursor->view == NULL) {
        cursor->view = PyMemoryView_FromObject(cursor->owner);
        if (cursor->view == NULL) {
            return NULL;
        }
    }
    /* A second view of the same buffer, narrowed before anybody else sees it: what slicing does, without the slice
       object. The shape of a view is stored in the view itself. */
    PyObject *view = PyMemoryView_FromObject(cursor->view);
    if (view != NULL) {
        Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
        buffer->buf = (char *)buffer->buf + start;
        buffer->len = size;
        buffer->shape[0] = size;
    }
    return view;
}

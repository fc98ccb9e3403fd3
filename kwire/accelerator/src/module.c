/* The extension module kwire.accelerator.native. */
#include "native.h"

PyObject *fast_path_error;

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kwire.accelerator.native",
    .m_doc = "Compiled reading and writing of messages and record batches.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_native(void) {
    if (fast_path_error == NULL) {
        PyObject *primitives = PyImport_ImportModule("kwire.primitives");
        if (primitives == NULL) {
            return NULL;
        }
        fast_path_error = PyObject_GetAttrString(primitives, "FastPathError");
        Py_DECREF(primitives);
        if (fast_path_error == NULL) {
            return NULL;
        }
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 || add_json(module) < 0 ||
                           add_messages(module) < 0 || add_packets(module) < 0 || add_records(module) < 0 ||
                           add_summary(module) < 0)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

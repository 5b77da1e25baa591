// SPDX-License-Identifier: Apache-2.0
#define RONDO_IMPORTS_NUMPY
#include "async_client.hpp"
#include "client.hpp"
#include "dlpack.hpp"
#include "errors.hpp"
#include "info.hpp"
#include "lease.hpp"
#include "loop.hpp"
#include "operation.hpp"
#include "process.hpp"
#include "server.hpp"
#include "tree.hpp"
#include <rondo/version.hpp>

PYBIND11_MODULE(_core, module) {
    using namespace rondo::python;  // NOLINT(google-build-using-namespace): the macro's scope
    if (_import_array() < 0) throw py::error_already_set{};
    watch_process(
        py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>());

    module.doc() = "The C++ side of rondo. Private: use what the package exports.";
    module.attr("__version__") = RONDO_VERSION;
    module.def("begin_exit", &begin_exit);
    add_errors(module);
    add_tree(module);
    add_lease(module);
    add_dlpack(module);
    add_info(module);
    add_loop(module);
    add_operation(module);
    add_server(module);
    add_client(module);
    add_async_client(module);
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.hpp"
#include <rondo/metrics.hpp>

namespace rondo::python {

/// `SampleInfo` and `HistSnapshot` with id-echo's names, and the dictionary of all metrics.
void add_info(py::module_& module);

[[nodiscard]] py::dict dict_of(const Metrics& metrics);

}  // namespace rondo::python

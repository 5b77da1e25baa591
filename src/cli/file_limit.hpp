// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rondo::cli {

/// Lets this process have as many open files as it may: a connection is one, and the usual limit of
/// 1,024 is only the default.
void raise_file_limit() noexcept;

}  // namespace rondo::cli

// SPDX-License-Identifier: Apache-2.0
// Precompiled with RONDO_PCH. Nothing may rely on it: the clang preset builds without.
#pragma once

#include <asio.hpp>
#include <tl/expected.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

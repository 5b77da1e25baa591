// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include "python.hpp"

#include <atomic>
#include <pthread.h>
#include <string>

namespace rondo::python {
namespace {

std::atomic<unsigned> generation{0};
std::atomic<unsigned long> main_thread{0};
std::atomic<bool> exit_begun{false};

// The thread that forked is the only one of the child.
void after_fork_in_child() {
    generation.fetch_add(1, std::memory_order_relaxed);
    main_thread.store(PyThread_get_thread_ident(), std::memory_order_relaxed);
}

}  // namespace

void watch_process(unsigned long main_thread_now) {
    main_thread.store(main_thread_now, std::memory_order_relaxed);
    ::pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

bool on_main_thread() noexcept {
    return PyThread_get_thread_ident() == main_thread.load(std::memory_order_relaxed);
}

void begin_exit() noexcept {
    exit_begun.store(true, std::memory_order_relaxed);
}

bool was_exit_begun() noexcept {
    return exit_begun.load(std::memory_order_relaxed);
}

unsigned fork_generation() noexcept {
    return generation.load(std::memory_order_relaxed);
}

void raise_use_after_fork(const char* what) {
    const std::string name{what};
    PyErr_SetString(PyExc_RuntimeError,
                    ("this " + name +
                     " belongs to the process that this one was forked from, and cannot be used "
                     "here: make a new one in the child, or start the child with spawn")
                        .c_str());
    throw py::error_already_set{};
}

}  // namespace rondo::python

// SPDX-License-Identifier: Apache-2.0
#include "loop.hpp"

#include "process.hpp"
#include "waits.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>

#include <cerrno>
#include <cstdint>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace rondo::python {
namespace {

class Background {
public:
    Background() : work_{io_.get_executor()}, thread_{[this] { io_.run(); }} {}

    [[nodiscard]] asio::io_context& io() noexcept { return io_; }
    [[nodiscard]] bool is_foreign() const noexcept { return started_in_ != fork_generation(); }

    void stop() {
        io_.stop();
        if (!is_foreign() && thread_.joinable()) thread_.join();
    }

private:
    const unsigned started_in_ = fork_generation();
    asio::io_context io_{1};
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::thread thread_;
};

// A forked child gets one of its own; the parent's, which has no thread there, is left alone.
Background* started = nullptr;  // guarded by started_mutex
std::mutex started_mutex;

}  // namespace

asio::io_context& background() {
    const std::lock_guard lock{started_mutex};
    if (started == nullptr || started->is_foreign()) started = new Background;
    return started->io();
}

void stop_background() {
    std::unique_lock lock{started_mutex};
    if (started == nullptr) return;
    Background& last = *started;
    lock.unlock();
    without_gil([&] { last.stop(); });
}

LoopQueue::LoopQueue() : fd_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)} {
    if (fd_ < 0) throw std::system_error{errno, std::generic_category(), "eventfd"};
}

LoopQueue::~LoopQueue() {
    ::close(fd_);
}

void LoopQueue::push(std::unique_ptr<Task> task) {
    const std::lock_guard lock{mutex_};
    if (closed_) {
        // Not here: it may pass a permit on, and whoever pushes holds locks that this needs.
        return asio::post(background(), [unrun = std::shared_ptr<Task>{std::move(task)}] {});
    }
    tasks_.push_back(std::move(task));
    if (tasks_.size() == 1) {
        const std::uint64_t one = 1;
        (void)!::write(fd_, &one, sizeof one);  // fails only when it is set already
    }
}

void LoopQueue::run() {
    std::uint64_t count = 0;
    (void)!::read(fd_, &count, sizeof count);
    std::unique_lock lock{mutex_};
    const auto tasks = std::exchange(tasks_, {});
    lock.unlock();
    for (const auto& task : tasks) task->run();
}

void LoopQueue::close() {
    std::unique_lock lock{mutex_};
    closed_ = true;
    const auto unrun = std::exchange(tasks_, {});
    lock.unlock();  // before they are destroyed, which may push others
}

bool LoopQueue::was_closed() {
    const std::lock_guard lock{mutex_};
    return closed_;
}

void add_loop(py::module_& module) {
    py::class_<LoopBridge>(module, "LoopBridge", "Brings completions to one event loop.")
        .def(py::init<>())
        .def("fileno", &LoopBridge::fileno)
        .def("run", &LoopBridge::run)
        .def("close", &LoopBridge::close);
    module.def("stop_background", &stop_background);
}

}  // namespace rondo::python

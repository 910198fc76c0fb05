// The supervising thread.
#include "worker/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "core/log.h"

namespace exo::worker {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxFailures = 5;

milliseconds back_off(int failures) {
  if (failures <= 1) return milliseconds(0);
  return std::min(milliseconds(10'000), milliseconds(500) * (1 << std::min(failures - 2, 10)));
}

}  // namespace

Supervisor::Supervisor(RunnerProcessOptions options, const Clock& clock, int wake)
    : options_(std::move(options)), clock_(clock), wake_(wake) {}

Supervisor::~Supervisor() { ::close(wake_); }

void Supervisor::run() {
  while (!stopping()) {
    launch_if_due();
    send_waiting();
    send_cancels();
    wait_for_events();
    if (link_ && !stopping()) read_reports();
    if (link_) watch();
  }
  shut_down();
}

void Supervisor::stop(bool silently) {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (silently) tasks_.clear();
  }
  wake();
}

Result<void> Supervisor::generate(TaskId id, protocol::TextRequest request, OnChunk on_chunk) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return fail(ErrorCode::kUnavailable, "the node is shutting down");
    if (wanted_ == Wanted::kNever) return std::unexpected(trouble_);
    if (wanted_ == Wanted::kOnRequest && clock_.now() < retry_at_) return std::unexpected(trouble_);
    if (tasks_.size() >= options_.max_queued) {
      return fail(ErrorCode::kBusy, fmt::format("{} requests wait for {} already; try again later",
                                                tasks_.size(), options_.model.value));
    }
    Entry entry{.request = std::move(request),
                .on_chunk = std::make_shared<const OnChunk>(std::move(on_chunk)),
                .cancelled = false};
    if (!tasks_.emplace(id, std::move(entry)).second)
      return fail(ErrorCode::kAlreadyExists, "a task with this id is under way", id.value);
    waiting_.push_back(std::move(id));
  }
  wake();
  return {};
}

void Supervisor::cancel(const TaskId& id) {
  {
    MutexLock lock(mutex_);
    const auto found = tasks_.find(id);
    if (found == tasks_.end() || found->second.cancelled) return;
    found->second.cancelled = true;
    cancels_.push_back(id);
  }
  wake();
}

std::string Supervisor::problem() const {
  MutexLock lock(mutex_);
  return ready_ ? std::string() : trouble_.message;
}

bool Supervisor::ready() const {
  MutexLock lock(mutex_);
  return ready_;
}

protocol::LoadedModel Supervisor::loaded() const {
  MutexLock lock(mutex_);
  return loaded_;
}

bool Supervisor::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void Supervisor::wake() const {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the thread wakes anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
}

// Wakes up now and then for the time limits, which follow a clock of their own.
void Supervisor::wait_for_events() {
  constexpr int kTickMs = 100;
  std::array<pollfd, 2> polled = {pollfd{.fd = wake_, .events = POLLIN, .revents = 0},
                                  pollfd{.fd = -1, .events = POLLIN, .revents = 0}};
  if (link_) {
    polled[1].fd = link_->descriptor();
    if (link_->wants_to_write()) polled[1].events = POLLIN | POLLOUT;
  }
  if (::poll(polled.data(), polled.size(), kTickMs) <= 0) return;
  if (polled[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof(count));
  }
  if (link_ && (polled[1].revents & POLLOUT) != 0) link_->flush();
}

void Supervisor::launch_if_due() {
  if (link_) return;
  {
    MutexLock lock(mutex_);
    if (wanted_ == Wanted::kNever || clock_.now() < retry_at_) return;
    if (wanted_ == Wanted::kOnRequest && waiting_.empty()) return;
  }
  greeted_ = false;
  last_sign_ = clock_.now();
  Result<std::unique_ptr<RunnerLink>> link =
      RunnerLink::start(options_.command, options_.model.value);
  if (!link) {
    log::error("the runner of {} does not start: {}", options_.model.value,
               to_string(link.error()));
    schedule_restart(fmt::format("the runner of {} does not start: {}", options_.model.value,
                                 link.error().message));
    return;
  }
  link_ = *std::move(link);
  static_cast<void>(link_->send(protocol::Hello{}));
}

// Once the model is ready: everything that waits.
void Supervisor::send_waiting() {
  std::vector<std::pair<TaskId, protocol::TextRequest>> sending;
  {
    MutexLock lock(mutex_);
    if (!ready_) return;
    for (TaskId& id : waiting_) {
      const auto found = tasks_.find(id);
      if (found == tasks_.end() || !found->second.request) continue;
      sending.emplace_back(std::move(id), *std::exchange(found->second.request, std::nullopt));
    }
    waiting_.clear();
  }
  for (auto& [id, request] : sending) {
    if (in_flight_++ == 0) last_sign_ = clock_.now();
    const auto sent = link_->send(protocol::Generate{.id = id, .request = std::move(request)});
    if (!sent) deliver(id, protocol::ErrorChunk{.error = sent.error()});
  }
}

void Supervisor::send_cancels() {
  std::vector<TaskId> unsent, sent;
  {
    MutexLock lock(mutex_);
    for (TaskId& id : std::exchange(cancels_, {})) {
      const auto found = tasks_.find(id);
      if (found == tasks_.end()) continue;
      (found->second.request ? unsent : sent).push_back(std::move(id));
    }
  }
  for (const TaskId& id : sent) {
    if (link_) static_cast<void>(link_->send(protocol::Cancel{.id = id}));
  }
  for (const TaskId& id : unsent) {
    protocol::FinishChunk finish;
    finish.cancelled = true;
    deliver(id, finish);
  }
}

void Supervisor::read_reports() {
  const bool open = link_->receive();
  while (link_) {
    Result<std::optional<protocol::Report>> report = link_->next();
    if (!report) return kill_for("sent nonsense: " + report.error().message);
    if (!*report) break;
    if (const Result<void> handled = handle(**std::move(report)); !handled)
      return kill_for(handled.error().message);
  }
  if (open || !link_) return;
  const ExitStatus status = link_->end(milliseconds(2000));
  crashed(to_string(status), status.signal == SIGKILL);
}

Result<void> Supervisor::handle(protocol::Report report) {
  if (const auto* hello = std::get_if<protocol::Hello>(&report)) {
    if (hello->version != protocol::kTaskProtocolVersion) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("speaks version {} of the task protocol, not {}", hello->version,
                              protocol::kTaskProtocolVersion));
    }
    if (!std::exchange(greeted_, true)) {
      return link_->send(protocol::LoadModel{
          .id = TaskId{random_uuid()}, .path = options_.model_path, .model = options_.model});
    }
    return {};
  }
  if (const auto* status = std::get_if<protocol::RunnerStatus>(&report)) {
    // A runner that refuses the node's version has had no chance to greet.
    if (greeted_ || status->state == protocol::RunnerState::kFailed) {
      handle_status(*status);
      return {};
    }
  }
  if (!greeted_) return fail(ErrorCode::kInvalidInput, "did not say hello first");
  last_sign_ = clock_.now();
  if (const auto* loaded = std::get_if<protocol::LoadedModel>(&report)) {
    MutexLock lock(mutex_);
    loaded_ = *loaded;
  } else if (auto* chunk = std::get_if<protocol::TaskChunk>(&report)) {
    if (std::holds_alternative<protocol::FinishChunk>(chunk->chunk)) failures_ = 0;
    deliver(chunk->id, std::move(chunk->chunk));
  }
  return {};
}

void Supervisor::handle_status(const protocol::RunnerStatus& status) {
  last_sign_ = clock_.now();
  if (status.state == protocol::RunnerState::kFailed) return load_failed(status.error);
  if (status.state != protocol::RunnerState::kReady) return;
  MutexLock lock(mutex_);
  ready_ = true;
  wanted_ = Wanted::kNow;
  trouble_ = {};
}

// Ends a process that has been silent for too long.
void Supervisor::watch() {
  const bool loading = !ready();
  if (!loading && in_flight_ == 0) return;
  const milliseconds limit = loading ? options_.load_limit : options_.answer_limit;
  if (clock_.now() - last_sign_ <= limit) return;
  kill_for(fmt::format("showed no progress for {} s while it was {}",
                       std::chrono::duration_cast<std::chrono::seconds>(limit).count(),
                       loading ? "loading" : "answering"));
}

void Supervisor::kill_for(const std::string& reason) {
  link_->end(milliseconds(0));
  crashed("it " + reason, false);
}

void Supervisor::crashed(const std::string& how, bool memory_hint) {
  const std::string lines = link_->last_lines();
  link_.reset();
  const std::string why = fmt::format(
      "the runner of {} ended before the answer was complete ({}){}{}", options_.model.value, how,
      memory_hint ? "; the system may have run out of memory: try a smaller model or "
                    "close other programs"
                  : "",
      lines);
  log::error("{}", why);
  schedule_restart(why);
}

// The model itself is the reason: whoever waits is told, and only a new request tries again. To a
// client that is the node's trouble, whatever is wrong with the files.
void Supervisor::load_failed(const Error& reason) {
  link_->end(milliseconds(1000));
  link_.reset();
  ++failures_;
  const Error error{
      .code = ErrorCode::kUnavailable,
      .message = fmt::format("{} cannot be loaded: {}", options_.model.value, to_string(reason)),
      .subject = options_.model.value};
  log::error("{}", error.message);
  {
    MutexLock lock(mutex_);
    ready_ = false;
    trouble_ = error;
    wanted_ = Wanted::kOnRequest;
    // Even the first retry waits: the same file fails in the same way.
    retry_at_ = clock_.now() + std::max(milliseconds(500), back_off(failures_));
  }
  fail_tasks(error, true);
}

void Supervisor::schedule_restart(const std::string& why) {
  ++failures_;
  const bool give_up = failures_ >= kMaxFailures;
  Error error{.code = ErrorCode::kUnavailable, .message = why, .subject = options_.model.value};
  {
    MutexLock lock(mutex_);
    ready_ = false;
    trouble_ = error;
    if (give_up)
      trouble_.message = fmt::format("gave up after {} failures in a row: {}", failures_, why);
    wanted_ = give_up ? Wanted::kNever : Wanted::kNow;
    retry_at_ = clock_.now() + back_off(failures_);
  }
  fail_tasks(error, give_up);
}

void Supervisor::deliver(const TaskId& id, protocol::Chunk chunk) {
  std::shared_ptr<const OnChunk> on_chunk;
  {
    MutexLock lock(mutex_);
    const auto found = tasks_.find(id);
    if (found == tasks_.end()) return;
    on_chunk = found->second.on_chunk;
    if (protocol::is_terminal(chunk)) {
      if (!found->second.request && in_flight_ > 0) --in_flight_;
      std::erase(waiting_, id);
      tasks_.erase(found);
    }
  }
  (*on_chunk)(std::move(chunk));
}

void Supervisor::fail_tasks(const Error& error, bool all) {
  std::vector<TaskId> ending;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, entry] : tasks_) {
      if (all || !entry.request) ending.push_back(id);
    }
  }
  for (const TaskId& id : ending) deliver(id, protocol::ErrorChunk{.error = error});
}

void Supervisor::shut_down() {
  fail_tasks(Error{.code = ErrorCode::kUnavailable,
                   .message = "the node is shutting down",
                   .subject = options_.model.value},
             true);
  if (!link_) return;
  static_cast<void>(link_->send(protocol::Shutdown{}));
  link_->end(milliseconds(2000));
  link_.reset();
}

}  // namespace exo::worker

// A child of kineto, PyTorch's profiler. It keeps what was handed to streams while a trace is taken; the
// durations, which the timing model may have to compute first, are asked for when the trace is read.
//
// An event begins where the host handed it over, or where the stream was done with the one before if that is
// later: the host's clock says when, the simulated one how long.
#include "torch/profiler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include "torch/device.h"

namespace opentrn::torch_device {

namespace {

using libkineto::ActivityType;

struct Row {
  std::shared_ptr<Timed> what;
  c10::Stream stream;
  int64_t at_ns;        // of the host's clock
  int64_t correlation;  // PyTorch's number of the op that it is part of; 0 outside of one
};

struct Notes {
  std::mutex mutex;
  std::vector<Row> rows;
};
Notes& notes() {
  static auto* all = new Notes;  // threads may note while the process ends
  return *all;
}

thread_local std::vector<int64_t> correlations;

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    const std::lock_guard lock(notes().mutex);
    notes().rows.clear();
    profiler_runs = true;
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    profiler_runs = false;
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    write(logger, [](int32_t) { return nullptr; });
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback op_of, int64_t,
                    int64_t) override {
    write(logger, op_of);
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { correlations.push_back(static_cast<int64_t>(id)); }
  void popCorrelationId() override {
    if (!correlations.empty()) correlations.pop_back();
  }

 private:
  void write(libkineto::ActivityLogger& logger, const libkineto::getLinkedActivityCallback& op_of) {
    std::vector<Row> rows;
    {
      const std::lock_guard lock(notes().mutex);
      rows.swap(notes().rows);
    }
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(0, 0, "neuron");
    buffer_->gpuOpCount = static_cast<int>(rows.size());
    std::map<std::pair<c10::DeviceIndex, c10::StreamId>, int64_t> done_ns;
    for (const Row& row : rows) {
      int64_t& done = done_ns[{row.stream.device_index(), row.stream.id()}];
      buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, row.what->label());
      libkineto::GenericTraceActivity& event = *buffer_->activities.back();
      event.startTime = std::max(row.at_ns, done);
      event.endTime = done = event.startTime + std::llround(row.what->time_ns());
      event.id = static_cast<int32_t>(row.correlation);
      event.device = row.stream.device_index();
      event.resource = static_cast<int32_t>(row.stream.id());
      event.linked = row.correlation == 0 ? nullptr : op_of(event.id);
      event.addMetadataQuoted("clock", "duration by the timing model");
      logger.handleGenericActivity(event);
    }
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& asked,
                                                                 const libkineto::Config&) override {
    if (!asked.contains(ActivityType::CONCURRENT_KERNEL)) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t,
                                                                 const std::set<ActivityType>& asked,
                                                                 const libkineto::Config& config) override {
    return configure(asked, config);
  }

 private:
  const std::string name_ = "neuron";
  const std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL};
};

}  // namespace

void register_profiler() {
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
}

void profile(c10::Stream stream, std::shared_ptr<Timed> what) {
  const std::lock_guard lock(notes().mutex);
  notes().rows.push_back({std::move(what), stream, now_ns(), correlations.empty() ? 0 : correlations.back()});
}

}  // namespace opentrn::torch_device

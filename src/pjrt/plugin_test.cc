// The plugin as a framework drives it, through the table alone.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/flags.h"
#include "isa/program.h"
#include "pjrt/abi.h"
#include "pjrt/compile_options.h"
#include "runtime/settings.h"

extern "C" const opentrn::pjrt::abi::Api* GetPjrtApi();

namespace opentrn::pjrt {

using runtime::Settings;
namespace {

// Places in the table, as the ABI numbers them.
enum Function {
  kErrorDestroy = 0,
  kErrorMessage = 1,
  kErrorCode = 2,
  kEventDestroy = 5,
  kEventAwait = 8,
  kClientCreate = 10,
  kClientDestroy = 11,
  kClientCompile = 20,
  kBufferFromHost = 22,
  kSerialize = 49,
  kLoadedDestroy = 50,
  kCodeSize = 45,
  kGetExecutable = 51,
  kLoadedDelete = 53,
  kExecutableDestroy = 40,
  kExecute = 55,
  kDeserialize = 56,
  kBufferDestroy = 58,
  kBufferDelete = 67,
  kBufferIsDeleted = 68,
  kToHost = 70,
  kBufferPointer = 73,
  kBufferReference = 74,
  kBufferDereference = 75,
  kUnimplemented = 77,
  kUninitializedBuffer = 112,
  kUpdateProcesses = 113,
};

template <typename Record>
Record record() {
  Record made{};
  made.struct_size = sizeof(Record);
  return made;
}

struct Failure {
  abi::Code code = abi::Code::kOk;
  std::string message;
};

template <typename Record>
Failure call(Function function, Record& args) {
  const abi::Api* api = GetPjrtApi();
  Error* error = api->functions[function](&args);
  if (!error) return {};
  auto code = record<abi::ErrorCode>();
  code.error = error;
  api->functions[kErrorCode](&code);
  auto message = record<abi::ErrorMessage>();
  message.error = error;
  api->functions[kErrorMessage](&message);
  Failure failure{code.code, std::string(message.message, message.size)};
  auto destroy = record<abi::ErrorArgs>();
  destroy.error = error;
  api->functions[kErrorDestroy](&destroy);
  return failure;
}

constexpr std::string_view kAddAndDouble = R"(
module @sample {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32> {jax.buffer_donor = true}) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x3xf32>
    %1 = stablehlo.add %0, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
})";

class Plugin : public testing::Test {
 protected:
  void SetUp() override {
    auto args = record<abi::ClientCreate>();
    ASSERT_EQ(call(kClientCreate, args).message, "");
    client_ = args.client;
  }
  void TearDown() override {
    auto args = record<abi::ClientArgs>();
    args.client = client_;
    call(kClientDestroy, args);
  }

  Failure compile(std::string code, LoadedExecutable** loaded, std::string_view format = "mlir",
                  std::string_view options = "") {
    auto program = record<abi::Program>();
    program.code = code.data();
    program.code_size = code.size();
    program.format = format.data();
    program.format_size = format.size();
    auto args = record<abi::ClientCompile>();
    args.client = client_;
    args.program = &program;
    args.options = options.data();
    args.options_size = options.size();
    const Failure failure = call(kClientCompile, args);
    *loaded = args.executable;
    return failure;
  }

  Buffer* buffer(const std::vector<float>& values, std::vector<int64_t> dims,
                 std::vector<int64_t> strides = {}) {
    auto args = record<abi::ClientBufferFromHost>();
    args.client = client_;
    args.data = values.data();
    args.type = abi::ElementType::kF32;
    args.dims = dims.data();
    args.rank = dims.size();
    args.byte_strides = strides.data();
    args.byte_stride_count = strides.size();
    EXPECT_EQ(call(kBufferFromHost, args).message, "");
    auto event = record<abi::EventArgs>();
    event.event = args.done_with_host_buffer;
    call(kEventDestroy, event);
    return args.buffer;
  }

  std::vector<float> values(Buffer* from) {
    auto args = record<abi::BufferToHost>();
    args.buffer = from;
    EXPECT_EQ(call(kToHost, args).message, "");
    std::vector<float> result(args.size / sizeof(float));
    args.data = result.data();
    EXPECT_EQ(call(kToHost, args).message, "");
    auto event = record<abi::EventArgs>();
    event.event = args.event;
    EXPECT_EQ(call(kEventAwait, event).message, "");
    call(kEventDestroy, event);
    return result;
  }

  Failure execute(LoadedExecutable* loaded, std::vector<Buffer*> arguments, Buffer** result,
                  abi::ExecuteOptions options = record<abi::ExecuteOptions>()) {
    auto args = record<abi::Execute>();
    Buffer* const* list = arguments.data();
    Buffer** outputs = result;
    args.executable = loaded;
    args.options = &options;
    args.arguments = &list;
    args.devices = 1;
    args.argument_count = arguments.size();
    args.outputs = &outputs;
    return call(kExecute, args);
  }

  bool is_deleted(Buffer* buffer) {
    auto args = record<abi::BufferFlag>();
    args.buffer = buffer;
    call(kBufferIsDeleted, args);
    return args.flag;
  }

  Failure change(Function function, Buffer* buffer) {
    auto args = record<abi::BufferArgs>();
    args.buffer = buffer;
    return call(function, args);
  }
  const float* pointer(Buffer* buffer) {
    auto args = record<abi::BufferPointer>();
    args.buffer = buffer;
    EXPECT_EQ(call(kBufferPointer, args).message, "");
    return reinterpret_cast<const float*>(args.pointer);
  }

  void destroy(Buffer* buffer) {
    auto args = record<abi::BufferArgs>();
    args.buffer = buffer;
    call(kBufferDestroy, args);
  }
  void destroy(Executable* executable) {
    auto args = record<abi::ExecutableArgs>();
    args.executable = executable;
    call(kExecutableDestroy, args);
  }
  void destroy(LoadedExecutable* loaded) {
    auto args = record<abi::LoadedArgs>();
    args.executable = loaded;
    call(kLoadedDestroy, args);
  }

  Client* client_ = nullptr;
};

TEST_F(Plugin, CompilesAndRunsAndDonates) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  Buffer* a = buffer({1, 2, 3, 4, 5, 6}, {2, 3});
  Buffer* b = buffer({1, 10, 2, 20, 3, 30}, {2, 3}, {4, 8});  // column-major
  Buffer* result = nullptr;
  ASSERT_EQ(execute(loaded, {a, b}, &result).message, "");
  EXPECT_EQ(values(result), (std::vector<float>{4, 8, 12, 28, 50, 72}));
  EXPECT_FALSE(is_deleted(a));
  EXPECT_TRUE(is_deleted(b));
  Buffer* again = nullptr;
  const Failure failure = execute(loaded, {a, b}, &again);
  EXPECT_EQ(failure.code, abi::Code::kInvalidArgument);
  EXPECT_NE(failure.message.find("deleted"), std::string::npos) << failure.message;
  for (Buffer* each : {a, b, result}) destroy(each);
  destroy(loaded);
}

// Large enough that freed memory goes back to the system: reading it then would end the test.
TEST_F(Plugin, MemoryOutlivesTheBufferWhileThereAreReferences) {
  constexpr int64_t kCount = int64_t{1} << 22;
  Buffer* a = buffer(std::vector<float>(kCount, 7), {kCount});
  const float* elements = pointer(a);
  ASSERT_EQ(change(kBufferReference, a).message, "");
  ASSERT_EQ(change(kBufferReference, a).message, "");
  ASSERT_EQ(change(kBufferDelete, a).message, "");
  EXPECT_TRUE(is_deleted(a));
  EXPECT_EQ(change(kBufferReference, a).code, abi::Code::kInvalidArgument);
  ASSERT_EQ(change(kBufferDereference, a).message, "");
  Buffer* other = buffer(std::vector<float>(kCount, 9), {kCount});  // does not get the same memory
  EXPECT_NE(pointer(other), elements);
  EXPECT_EQ(std::count(elements, elements + kCount, 7.0F), kCount);
  ASSERT_EQ(change(kBufferDereference, a).message, "");
  EXPECT_EQ(change(kBufferDereference, a).code, abi::Code::kInvalidArgument);
  for (Buffer* each : {a, other}) destroy(each);
}

TEST_F(Plugin, MemoryOutlivesItsDonationWhileThereAreReferences) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  Buffer *a = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *b = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *result = nullptr;
  const float* elements = pointer(b);
  ASSERT_EQ(change(kBufferReference, b).message, "");
  ASSERT_EQ(execute(loaded, {a, b}, &result).message, "");
  EXPECT_EQ(values(result), (std::vector<float>{4, 8, 12, 16, 20, 24}));
  EXPECT_TRUE(is_deleted(b));
  EXPECT_EQ(std::vector<float>(elements, elements + 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(change(kBufferDereference, b).message, "");
  for (Buffer* each : {a, b, result}) destroy(each);
  destroy(loaded);
}

TEST_F(Plugin, CallbacksThatSendAndReceiveAreRefused) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  Buffer *a = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *b = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *result = nullptr;
  for (const auto& [send, receive] : {std::pair<size_t, size_t>{1, 0}, {0, 2}}) {
    auto options = record<abi::ExecuteOptions>();
    options.send_count = send;
    options.receive_count = receive;
    const Failure failure = execute(loaded, {a, b}, &result, options);
    EXPECT_EQ(failure.code, abi::Code::kUnimplemented);
    EXPECT_NE(failure.message.find("callbacks"), std::string::npos) << failure.message;
  }
  EXPECT_FALSE(is_deleted(b));
  for (Buffer* each : {a, b}) destroy(each);
  destroy(loaded);
}

TEST_F(Plugin, TheSizeOfCodeIsInBytesOfTheProgram) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  auto get = record<abi::LoadedExecutableOf>();
  get.loaded = loaded;
  call(kGetExecutable, get);
  auto size = record<abi::ExecutableNumber>();
  size.executable = get.executable;
  EXPECT_EQ(call(kCodeSize, size).message, "");
  EXPECT_GE(size.number, 3 * sizeof(isa::Instruction));  // two loads and a store at least
  destroy(get.executable);
  destroy(loaded);
}

TEST_F(Plugin, FormatsAndOptionsThatAreNotReadAreRefused) {
  LoadedExecutable* loaded = nullptr;
  for (const char* format : {"hlo_with_config", "pjrt", ""}) {
    const Failure failure = compile(std::string(kAddAndDouble), &loaded, format);
    EXPECT_EQ(failure.code, abi::Code::kUnimplemented) << format;
    EXPECT_NE(failure.message.find("format"), std::string::npos) << failure.message;
  }
  constexpr std::string_view kTupledArguments{"\x10\x01", 2}, kAutoSharding{"\x1a\x02\x38\x01", 4},
      kTwoProcesses{"\x1a\x03\xb8\x01\x02", 5}, kSlices{"\x32\x01x", 3};
  for (const std::string_view options : {kTupledArguments, kAutoSharding, kTwoProcesses, kSlices})
    EXPECT_EQ(compile(std::string(kAddAndDouble), &loaded, "mlir", options).code, abi::Code::kUnimplemented);
}

TEST(CompileOptions, WhatChangesNothingIsNamed) {
  // exec_time_optimization_effort = 0.5, memory_fitting_level = 2, in the build options
  constexpr std::string_view kEffort{"\x1a\x09\xa5\x01\x00\x00\x00\x3f\xc8\x01\x02", 11};
  EXPECT_EQ(read_compile_options(kEffort).without_effect,
            (std::vector<std::string>{"exec_time_optimization_effort", "memory_fitting_level"}));
}

abi::NamedValue number(std::string_view name, int64_t value) {
  abi::NamedValue option{};
  option.struct_size = sizeof option;
  option.name = name.data();
  option.name_size = name.size();
  option.kind = abi::ValueKind::kInt64;
  option.int64 = value;
  option.size = 1;
  return option;
}

// A coordinator whom no other process has told anything.
Error* get_nothing(abi::KeyValueGet* args) {
  const std::string_view key(args->key, args->key_size);
  const std::string message = "DEADLINE_EXCEEDED: " + std::string(key);
  return (*args->error_of)(abi::Code::kNotFound, message.data(), message.size());
}
Error* put_anything(abi::KeyValuePut*) { return nullptr; }

// What jaxlib gives: the numbers of jax.distributed, and a store for keys.
Failure created_with(std::vector<abi::NamedValue> options, bool store) {
  auto args = record<abi::ClientCreate>();
  args.options = options.data();
  args.option_count = options.size();
  if (store) {
    args.kv_get = reinterpret_cast<void*>(&get_nothing);
    args.kv_put = reinterpret_cast<void*>(&put_anything);
  }
  const Failure failure = call(kClientCreate, args);
  if (failure.code != abi::Code::kOk) return failure;
  auto destroy = record<abi::ClientArgs>();
  destroy.client = args.client;
  return call(kClientDestroy, destroy);
}

TEST(Client, SeveralProcessesMeetByTheStore) {
  const Failure two = created_with({number("node_id", 1), number("num_nodes", 2)}, true);
  EXPECT_EQ(two.code, abi::Code::kInvalidArgument);
  EXPECT_NE(two.message.find("pjrt.absent"), std::string::npos) << two.message;
  EXPECT_NE(two.message.find("DEADLINE_EXCEEDED: opentrn/pjrt/host/0"), std::string::npos) << two.message;
  EXPECT_EQ(created_with({number("node_id", 1), number("num_nodes", 2)}, false).code,
            abi::Code::kInvalidArgument);
  EXPECT_EQ(created_with({number("node_id", 2), number("num_nodes", 2)}, true).code,
            abi::Code::kInvalidArgument);
  EXPECT_EQ(created_with({}, true).message, "");
  EXPECT_EQ(created_with({number("node_id", 0), number("num_nodes", 1)}, true).message, "");
  EXPECT_EQ(created_with({}, false).message, "");
}

TEST(Client, OptionsThatItDoesNotHaveAreRefused) {
  const Failure failure = created_with({number("memory_fraction", 1)}, false);
  EXPECT_EQ(failure.code, abi::Code::kInvalidArgument);
  EXPECT_NE(failure.message.find("'memory_fraction'"), std::string::npos) << failure.message;
}

TEST_F(Plugin, ToldOfOtherProcessesItGoesOn) {
  auto args = record<abi::ClientUpdateProcesses>();
  args.client = client_;
  args.count = 1;
  EXPECT_EQ(call(kUpdateProcesses, args).message, "");
  args.count = 2;
  EXPECT_EQ(call(kUpdateProcesses, args).message, "");
}

// Whatever the child of a fork asks for, it gets an answer: a child that waits is ended by its alarm.
TEST_F(Plugin, TheChildOfAForkIsToldSo) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  Buffer *a = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *b = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *result = nullptr;
  const auto is_told = [](const Failure& failure) {
    return failure.code == abi::Code::kInvalidArgument && failure.message.find("spawn") != std::string::npos;
  };
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool good = is_told(execute(loaded, {a, b}, &result)) && !is_deleted(b);
    LoadedExecutable* other = nullptr;
    good &= is_told(compile(std::string(kAddAndDouble), &other));
    auto host = record<abi::BufferToHost>();
    host.buffer = a;
    good &= is_told(call(kToHost, host));
    destroy(a);
    destroy(loaded);
    TearDown();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_EQ(execute(loaded, {a, b}, &result).message, "");
  EXPECT_EQ(values(result), (std::vector<float>{4, 8, 12, 16, 20, 24}));
  for (Buffer* each : {a, b, result}) destroy(each);
  destroy(loaded);
}

// A thread deletes what others use: they get what they asked for, or the error.
TEST_F(Plugin, ThreadsMayDeleteWhatOthersUse) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  const auto done_or_deleted = [](const Failure& failure) {
    EXPECT_TRUE(failure.code == abi::Code::kOk || failure.message.find("deleted") != std::string::npos)
        << failure.message;
  };
  for (int round = 0; round < 20; ++round) {
    Buffer *a = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *b = buffer({1, 1, 1, 1, 1, 1}, {2, 3});
    const auto execute_both = [&] {
      Buffer* result = nullptr;
      const Failure failure = execute(loaded, {a, b}, &result);
      done_or_deleted(failure);
      if (failure.code != abi::Code::kOk) return;
      EXPECT_EQ(values(result), (std::vector<float>{4, 6, 8, 10, 12, 14}));
      destroy(result);
    };
    std::vector<std::thread> threads;
    threads.emplace_back(execute_both);
    threads.emplace_back(execute_both);
    threads.emplace_back([&] {
      auto pointer = record<abi::BufferPointer>();
      pointer.buffer = a;
      while (!is_deleted(a)) done_or_deleted(call(kBufferPointer, pointer));
    });
    threads.emplace_back([&] {
      auto args = record<abi::BufferArgs>();
      args.buffer = a;
      EXPECT_EQ(call(kBufferDelete, args).message, "");
      auto last = record<abi::LoadedArgs>();
      last.executable = loaded;
      if (round == 19) {
        EXPECT_EQ(call(kLoadedDelete, last).message, "");
      }
    });
    for (std::thread& thread : threads) thread.join();
    for (Buffer* each : {a, b}) destroy(each);
  }
  destroy(loaded);
}

TEST_F(Plugin, AProgramComesBackFromItsBytes) {
  LoadedExecutable* loaded = nullptr;
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  auto get = record<abi::LoadedExecutableOf>();
  get.loaded = loaded;
  call(kGetExecutable, get);
  auto bytes = record<abi::ExecutableSerialized>();
  bytes.executable = get.executable;
  ASSERT_EQ(call(kSerialize, bytes).message, "");
  auto back = record<abi::ExecutableDeserialize>();
  back.client = client_;
  back.bytes = bytes.bytes;
  back.size = bytes.size;
  ASSERT_EQ(call(kDeserialize, back).message, "");
  Buffer *a = buffer({1, 2, 3, 4, 5, 6}, {2, 3}), *b = buffer({1, 1, 1, 1, 1, 1}, {2, 3}), *result = nullptr;
  ASSERT_EQ(execute(back.loaded, {a, b}, &result).message, "");
  EXPECT_EQ(values(result), (std::vector<float>{4, 6, 8, 10, 12, 14}));
  // Cut short, it is refused.
  back.size = bytes.size - 1;
  EXPECT_EQ(call(kDeserialize, back).code, abi::Code::kInvalidArgument);
  bytes.deleter(bytes.owner);
  for (Buffer* each : {a, b, result}) destroy(each);
  destroy(get.executable);
  destroy(back.loaded);
  destroy(loaded);
}

TEST_F(Plugin, FaultsBecomeErrors) {
  LoadedExecutable* loaded = nullptr;
  EXPECT_EQ(compile("module {", &loaded).code, abi::Code::kInvalidArgument);
  EXPECT_EQ(compile("", &loaded).code, abi::Code::kInvalidArgument);
  ASSERT_EQ(compile(std::string(kAddAndDouble), &loaded).message, "");
  Buffer* wrong = buffer({1, 2}, {2});
  Buffer* result = nullptr;
  const Failure shape = execute(loaded, {wrong, wrong}, &result);
  EXPECT_EQ(shape.code, abi::Code::kInvalidArgument);
  EXPECT_NE(shape.message.find("tensor<2x3xf32>"), std::string::npos) << shape.message;
  EXPECT_EQ(execute(loaded, {wrong}, &result).code, abi::Code::kInvalidArgument);
  auto args = record<abi::ClientArgs>();
  EXPECT_EQ(call(kUnimplemented, args).code, abi::Code::kUnimplemented);
  destroy(wrong);
  destroy(loaded);
}

TEST_F(Plugin, AProgramLargerThanHbmIsRefusedWhenItIsCompiled) {
  LoadedExecutable* loaded = nullptr;
  // 64 GiB of result; a core of Trainium2 has 12, its chip 96.
  const Failure failure =
      compile(R"(module { func.func public @main(%a: tensor<f32>) -> tensor<131072x131072xf32> {
      %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<131072x131072xf32>
      return %0 : tensor<131072x131072xf32> } })",
              &loaded);
  EXPECT_EQ(failure.code, abi::Code::kResourceExhausted);
  EXPECT_NE(failure.message.find("a logical core has 12.0 GiB of HBM"), std::string::npos) << failure.message;
}

TEST_F(Plugin, AnArrayLargerThanHbmIsRefused) {
  auto args = record<abi::ClientUninitialized>();
  const int64_t dims[] = {131072, 131072};
  args.client = client_;
  args.dims = dims;
  args.rank = 2;
  args.type = abi::ElementType::kF32;
  const Failure failure = call(kUninitializedBuffer, args);
  EXPECT_EQ(failure.code, abi::Code::kResourceExhausted);
  EXPECT_NE(failure.message.find("HBM"), std::string::npos) << failure.message;
}

TEST(Table, NullArgumentsAreErrors) {
  const abi::Api* api = GetPjrtApi();
  for (size_t i = 0; i < abi::kFunctions; ++i) {
    SCOPED_TRACE(i);
    struct alignas(8) Zeros {
      std::byte bytes[512];
    } zeros{};
    auto* args = reinterpret_cast<abi::Args*>(&zeros);
    args->struct_size = sizeof zeros;
    Error* error = api->functions[i](args);
    // Those that need nothing, or make something, or destroy what may be null.
    constexpr size_t kNeedNothing[] = {kErrorDestroy, kErrorMessage, 3, 4, kClientCreate, 98, 123, 126, 132};
    const bool may_pass = std::ranges::find(kNeedNothing, i) != std::end(kNeedNothing);
    EXPECT_EQ(error == nullptr, may_pass);
    if (i == kClientCreate) {
      auto destroy = record<abi::ClientArgs>();
      destroy.client = reinterpret_cast<abi::ClientCreate*>(args)->client;
      api->functions[kClientDestroy](&destroy);
    }
    // What is made by the first is destroyed by the second, whose record is the same.
    constexpr std::pair<size_t, size_t> kPairs[] = {{98, 99}, {126, 5}};  // contexts, events
    for (const auto& [make, destroy] : kPairs)
      if (i == make) api->functions[destroy](args);
    auto destroy = record<abi::ErrorArgs>();
    destroy.error = error;
    api->functions[kErrorDestroy](&destroy);
  }
}

TEST_F(Plugin, RecordsOfOlderCallersMayEndEarlier) {
  struct alignas(8) Short {
    size_t struct_size;
    abi::Extension* extension;
    Client* client;
    int canary;
  } args{offsetof(Short, canary), nullptr, client_, 1234567};
  Error* error = GetPjrtApi()->functions[13](reinterpret_cast<abi::Args*>(&args));  // Client_ProcessIndex
  EXPECT_EQ(error, nullptr);
  EXPECT_EQ(args.canary, 1234567);
}

Settings settings_from(std::map<std::string, std::string> variables) {
  return runtime::read_settings([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Settings, OneCoreUnlessToldOtherwise) {
  EXPECT_EQ(settings_from({}).cores, std::vector<int>{0});
  EXPECT_EQ(settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn1"}}).generation, Generation::kV2);
}

TEST(Settings, AnInstanceHasItsCores) {
  // 16 chips of 8 cores, two of them a logical one.
  EXPECT_EQ(settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn2.48xlarge"}}).cores.size(), 64u);
  EXPECT_EQ(settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "TRN2.48xlarge"}}).cores.size(), 64u);
  EXPECT_EQ(settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "Trn2 UltraServer"}}).cores.size(), 256u);
  EXPECT_EQ(
      settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "Trn3 Gen2 UltraServer"}}).physical_cores_per_core,
      settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn3"}}).physical_cores_per_core);
  EXPECT_EQ(
      settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn2.48xlarge"}, {"NEURON_LOGICAL_NC_CONFIG", "1"}})
          .cores.size(),
      128u);
  EXPECT_EQ(settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn1.32xlarge"}}).cores.size(), 32u);
}

TEST(Settings, StochasticRounding) {
  EXPECT_FALSE(settings_from({}).rounds_stochastically);
  EXPECT_FALSE(settings_from({{"NEURON_RT_STOCHASTIC_ROUNDING_EN", "0"}}).rounds_stochastically);
  const Settings on = settings_from(
      {{"NEURON_RT_STOCHASTIC_ROUNDING_EN", "1"}, {"NEURON_RT_STOCHASTIC_ROUNDING_SEED", "17"}});
  EXPECT_TRUE(on.rounds_stochastically);
  EXPECT_EQ(on.rounding_seed, 17u);
  EXPECT_THROW(settings_from({{"NEURON_RT_STOCHASTIC_ROUNDING_EN", "yes"}}), Fault);
}

using Named = std::map<std::string, std::string>;
using compiler::add_compiler_options;
using compiler::CompilerFlags;
using compiler::parse_compiler_flags;

TEST(CompilerFlags, AreSplitAsAShellDoes) {
  EXPECT_EQ(parse_compiler_flags("").options, Named{});
  EXPECT_EQ(parse_compiler_flags("  --auto-cast=all --auto-cast-type bf16 -O1 ").options,
            (Named{{"auto-cast", "all"}, {"auto-cast-type", "bf16"}, {"optlevel", "1"}}));
  EXPECT_EQ(parse_compiler_flags("-O 2 -O=1 --target trn1").options, (Named{{"optlevel", "1"}}));
  EXPECT_EQ(parse_compiler_flags("-O 2 --target trn1").target, "trn1");
  EXPECT_EQ(parse_compiler_flags("--enable-stochastic-rounding --weight-dtype int8").options,
            (Named{{"enable-stochastic-rounding", "true"}, {"weight-dtype", "int8"}}));
}

TEST(CompilerFlags, NothingIsLeftOutSilently) {
  const CompilerFlags flags = parse_compiler_flags(
      "--model-type transformer --internal-hlo2tensorizer-options='--a b' -lnc 2 --enable-saturate-infinity "
      "--tensorizer-options=\"--x y\"");
  EXPECT_EQ(flags.options, Named{});
  EXPECT_EQ(flags.without_effect,
            (std::vector<std::string>{"--model-type transformer", "--internal-hlo2tensorizer-options=--a b",
                                      "-lnc 2", "--enable-saturate-infinity", "--tensorizer-options=--x y"}));
  for (const char* wrong : {"--auto-cats all", "bf16", "--auto-cast", "--output 'a"})
    EXPECT_THROW(parse_compiler_flags(wrong), Fault) << wrong;
  EXPECT_THROW(parse_compiler_flags("--native-int64=enabled"), Fault);
  EXPECT_NO_THROW(parse_compiler_flags("--native-int64=default"));
}

TEST(CompilerFlags, OptionsOfJitWin) {
  CompilerFlags flags = parse_compiler_flags("--auto-cast=all");
  add_compiler_options(flags, {{"auto_cast", "matmult"}, {"optimization_level", "19"}, {"xla_x", "2"}});
  EXPECT_EQ(flags.options, (Named{{"auto-cast", "matmult"}}));
  EXPECT_EQ(flags.without_effect, (std::vector<std::string>{"optimization_level", "xla_x"}));
  EXPECT_THROW(add_compiler_options(flags, {{"fast", "true"}}), Fault);
}

TEST(Settings, CoresAreCountedOrNamed) {
  EXPECT_EQ(settings_from({{"NEURON_RT_NUM_CORES", "3"}}).cores, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(settings_from({{"NEURON_RT_VISIBLE_CORES", "4-6,1"}}).cores, (std::vector<int>{4, 5, 6, 1}));
  for (const char* wrong : {"", "a", "3-1", "1,", "-2", "1-99999999999", "1,1", "0-3,2"})
    EXPECT_THROW(settings_from({{"NEURON_RT_VISIBLE_CORES", wrong}}), Fault) << wrong;
  EXPECT_THROW(settings_from({{"NEURON_RT_NUM_CORES", "0"}}), Fault);
  const Named instance{{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn1.32xlarge"}};
  Named too_many = instance, beyond = instance, some = instance, paired = instance;
  too_many["NEURON_RT_NUM_CORES"] = "33";
  beyond["NEURON_RT_VISIBLE_CORES"] = "31-32";
  some["NEURON_RT_VISIBLE_CORES"] = "30-31";
  paired["NEURON_LOGICAL_NC_CONFIG"] = "2";  // Trainium2 has logical cores
  for (const Named& wrong : {too_many, beyond, paired}) EXPECT_THROW(settings_from(wrong), Fault);
  EXPECT_EQ(settings_from(some).cores, (std::vector<int>{30, 31}));
  EXPECT_THROW(settings_from({{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn9"}}), Fault);
}

TEST(Settings, PacketsOfDmaRings) {
  constexpr auto kCompute = "NEURON_RT_DBG_DMA_PACKETIZATION_SIZE",
                 kOfCollectives = "NEURON_RT_DBG_CC_DMA_PACKET_SIZE";
  EXPECT_DOUBLE_EQ(settings_from({}).dma_packets.of_collectives(), 16.0 / 17);
  const auto packets = settings_from({{kCompute, "65536"}, {kOfCollectives, "4096,65536"}}).dma_packets;
  EXPECT_EQ(packets.compute_bytes, 65536);
  EXPECT_EQ(packets.collective_bytes, 4096);  // of stream 0
  EXPECT_DOUBLE_EQ(packets.of_collectives(0), 1.0 / 17);
  EXPECT_DOUBLE_EQ(packets.of_collectives(1), 0.5);
  EXPECT_DOUBLE_EQ(packets.of_collectives(3), 0.5);  // behind the last one
  for (const char* wrong : {"4095", "65537", "4k", "-1"})
    EXPECT_THROW(settings_from({{kCompute, wrong}}), Fault) << wrong;
  for (const char* wrong : {"63", "65537", "4096,", ",4096", "4096,x", "1e4"})
    EXPECT_THROW(settings_from({{kOfCollectives, wrong}}), Fault) << wrong;
}

TEST(Settings, CollectivesOfWeights) {
  const auto read = [](std::map<std::string, std::string> variables) {
    return settings_from(std::move(variables)).weight_collectives;
  };
  EXPECT_FALSE(read({}).is_ordered);
  EXPECT_FALSE(read({{"NEURON_FSDP_CC_MULTISTREAM", "1"}}).has_stream);  // only with NEURON_FSDP
  EXPECT_TRUE(read({{"NEURON_FSDP", "1"}}).is_ordered);
  EXPECT_FALSE(read({{"NEURON_FSDP", "1"}}).has_stream);
  EXPECT_TRUE(read({{"NEURON_FSDP", "1"}, {"NEURON_FSDP_CC_MULTISTREAM", "1"}}).has_stream);
  EXPECT_TRUE(read({{"NEURON_NXD_FSDP_CC_MULTISTREAM", "1"}}).is_ordered);
  EXPECT_TRUE(read({{"NEURON_NXD_FSDP_CC_MULTISTREAM", "1"}}).has_stream);
  const auto shifted = read({{"NEURON_FSDP", "1"},
                             {"NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT", "3"},
                             {"NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT", "2"}});
  EXPECT_EQ(shifted.layers_early, 3);
  EXPECT_EQ(shifted.layers_late, 2);
  for (const char* name : {"NEURON_FSDP", "NEURON_FSDP_CC_MULTISTREAM", "NEURON_NXD_FSDP_CC_MULTISTREAM",
                           "NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT", "NEURON_FSDP_NUM_LAYER_LATE_RS_SHIFT"})
    for (const char* wrong : {"-1", "yes", "1001"})
      EXPECT_THROW(read({{name, wrong}}), Fault) << name << wrong;
}

TEST(CompileOptions, AnAssignmentGoesThereAndBack) {
  const std::vector<int> devices{5, 1, 4, 2, 0, 3};
  std::string build;  // executable_build_options: num_replicas, num_partitions, device_assignment
  const std::string assignment = device_assignment(2, 3, devices);
  build += "\x20\x02\x28\x03\x4a";
  build += static_cast<char>(assignment.size());
  build += assignment;
  std::string bytes = "\x1a";
  bytes += static_cast<char>(build.size());
  bytes += build;
  const CompileOptions options = read_compile_options(bytes);
  EXPECT_EQ(options.replicas, 2);
  EXPECT_EQ(options.partitions, 3);
  EXPECT_EQ(options.devices, devices);
  for (size_t cut = 1; cut < bytes.size(); ++cut)
    EXPECT_THROW(read_compile_options(std::string_view(bytes).substr(0, cut)), Fault) << cut;
}

}  // namespace
}  // namespace opentrn::pjrt

#include "pjrt/entries.h"

namespace opentrn::pjrt {

namespace {

Error* error_of(const Completion::Outcome& outcome) { return outcome ? pjrt::error_of(*outcome) : nullptr; }

Error* null_event() { return pjrt::error_of({abi::Code::kInvalidArgument, "the event is a null pointer"}); }

}  // namespace

void error_destroy(abi::ErrorArgs& args) { delete args.error; }

void error_message(abi::ErrorMessage& args) {
  args.message = args.error->status.message.data();
  args.size = args.error->status.message.size();
}

void error_code(abi::ErrorCode& args) { args.code = args.error->status.code; }

void plugin_initialize(abi::Args&) {}

void get_plugin_attributes(abi::PluginAttributes& args) {
  args.attributes = plugin_attributes().data();
  args.count = plugin_attributes().size();
}

void event_destroy(abi::EventArgs& args) { delete args.event; }
void event_is_ready(abi::EventIsReady& args) { args.ready = args.event->completion->done(); }

void event_on_ready(abi::EventOnReady& args) {
  require(reinterpret_cast<const void*>(args.callback), "the callback");
  args.event->completion->then([callback = args.callback, user = args.user](const auto& outcome) {
    callback(error_of(outcome), user);
  });
}

void event_create(abi::EventArgs& args) { args.event = new Event{std::make_shared<Completion>()}; }

void event_set(abi::EventSet& args) {
  if (args.code == abi::Code::kOk) return args.event->completion->set(std::nullopt);
  args.event->completion->set(Status{args.code, std::string(args.message, args.message_size)});
}

Error* event_error(abi::Args* args) {
  if (!static_cast<abi::EventArgs*>(args)->event) return null_event();
  const auto& completion = static_cast<abi::EventArgs*>(args)->event->completion;
  return completion->done() ? error_of(completion->wait()) : nullptr;
}

Error* event_await(abi::Args* args) {
  if (!static_cast<abi::EventArgs*>(args)->event) return null_event();
  return error_of(static_cast<abi::EventArgs*>(args)->event->completion->wait());
}

// A context carries nothing here; a pointer that is not null tells it apart from none.
void context_create(abi::ContextArgs& args) { args.context = new char; }
void context_destroy(abi::ContextArgs& args) { delete static_cast<char*>(args.context); }

}  // namespace opentrn::pjrt

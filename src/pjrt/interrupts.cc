#include "pjrt/interrupts.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace opentrn::pjrt {

namespace {

// CPython's stable ABI, as far as it is needed; complete or not at all.
struct Python {
  int (*initialised)();
  int (*ensure)();
  void (*release)(int);
  int (*check_signals)();
  void (*fetch)(void**, void**, void**);
  void (*forget)(void*);
  unsigned long (*thread_ident)();
  int (*raise_in)(unsigned long, void*);

  static const Python* find() {
    static const Python found{
        function<int()>("Py_IsInitialized"),
        function<int()>("PyGILState_Ensure"),
        function<void(int)>("PyGILState_Release"),
        function<int()>("PyErr_CheckSignals"),
        function<void(void**, void**, void**)>("PyErr_Fetch"),
        function<void(void*)>("Py_DecRef"),
        function<unsigned long()>("PyThread_get_thread_ident"),
        function<int(unsigned long, void*)>("PyThreadState_SetAsyncExc"),
    };
    const bool complete = found.initialised && found.ensure && found.release && found.check_signals &&
                          found.fetch && found.forget && found.thread_ident && found.raise_in;
    return complete && found.initialised() ? &found : nullptr;
  }

 private:
  template <typename Signature>
  static Signature* function(const char* name) {
    return reinterpret_cast<Signature*>(::dlsym(RTLD_DEFAULT, name));
  }
};

bool run_handlers() {
  const Python* python = Python::find();
  if (!python) return false;
  const int state = python->ensure();
  const bool raised = python->check_signals() != 0;
  if (raised) {
    void *type = nullptr, *value = nullptr, *traceback = nullptr;
    python->fetch(&type, &value, &traceback);
    python->raise_in(python->thread_ident(), type);
    for (void* object : {type, value, traceback})
      if (object) python->forget(object);
  }
  python->release(state);
  return raised;
}

// Never destroyed: threads of the framework may outlive static objects.
struct Compilations {
  std::mutex mutex;
  std::set<interrupt::Work*> under_way;

  static Compilations& instance() {
    static Compilations& made = *new Compilations;
    return made;
  }
};

}  // namespace

Compilation::Compilation() : scope_(work_) {
  Compilations& all = Compilations::instance();
  const std::lock_guard guard(all.mutex);
  all.under_way.insert(&work_);
}

Compilation::~Compilation() {
  Compilations& all = Compilations::instance();
  const std::lock_guard guard(all.mutex);
  all.under_way.erase(&work_);
}

void stop_compilations() {
  Compilations& all = Compilations::instance();
  const std::lock_guard guard(all.mutex);
  for (interrupt::Work* work : all.under_way) work->stop();
}

void hear_signals() {
  if (::getpid() != ::gettid() || !Python::find()) return;
  interrupt::set_host(&run_handlers, static_cast<std::uintptr_t>(::pthread_self()));
}

}  // namespace opentrn::pjrt

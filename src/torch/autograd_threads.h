// PyTorch's threads that run backward passes, one for each device, and the end of the process.
#pragma once

namespace opentrn::torch_device {

// A program of the device runs on this thread.
void note_thread();
// Before Python ends, without its lock: waits until the threads of backward passes hold nothing of Python's
// any more. A thread that asked for Python's lock afterwards would end the process by std::terminate.
void settle_autograd_threads();

}  // namespace opentrn::torch_device

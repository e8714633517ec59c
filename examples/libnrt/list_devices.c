/* Lists the machine's devices and copies memory on one of them, through the driver's library of libnrt.
 *
 *   list_devices [BYTES]       so many are copied from HBM to HBM; a mebibyte without it */
#include <ndl/ndl.h>
#include <nrt/opentrn.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                   \
  do {                                                                \
    if ((call) != 0) {                                                \
      fprintf(stderr, "%s: %s\n", #call, opentrn_nrt_last_message()); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* One line: the device, its place on the PCI buses where that is known, and its neighbours. */
static void print_device(const ndl_device_t* device) {
  uint32_t domain = 0, bus = 0;
  uint8_t slot = 0, function = 0;
  printf("device %u: ", device->device_index);
  if (ndl_get_device_bdf_ext(device->device_index, &domain, &bus, &slot, &function) == 0)
    printf("%04x:%02x:%02x.%x, ", domain, bus, slot, function);
  printf("HBM of %.0f GiB each, connected to", (double)device->hbm_size / (1024.0 * 1024.0 * 1024.0));
  for (unsigned i = 0; i < device->connected_device_count; ++i) printf(" %u", device->connected_devices[i]);
  printf("\n");
}

/* From the host to HBM 0, from there to the last HBM, and back. */
static int copies_well(ndl_device_t* device, uint32_t last_hbm, size_t size) {
  uint64_t first = 0, second = 0;
  CHECK(ndl_memory_alloc(device, size, 0, 0, 0, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &first));
  CHECK(ndl_memory_alloc(device, size, 0, 0, last_hbm, 0, 0, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, &second));
  unsigned char *there = malloc(size), *back = malloc(size);
  if (there == NULL || back == NULL) exit(1);
  for (size_t i = 0; i < size; ++i) there[i] = (unsigned char)(i * 7);
  CHECK(ndl_memory_buf_copyin(first, there, 0, size));
  CHECK(ndl_memory_copy(first, second, 0, 0, size));
  CHECK(ndl_memory_buf_copyout(second, back, 0, size));
  int is_same = 1;
  for (size_t i = 0; i < size; ++i) is_same = is_same && there[i] == back[i];
  CHECK(ndl_memory_free(first));
  CHECK(ndl_memory_free(second));
  free(there);
  free(back);
  return is_same;
}

int main(int argc, char** argv) {
  const size_t size = argc > 1 ? strtoull(argv[1], NULL, 10) : (size_t)1 << 20;
  ndl_version_info_t version;
  CHECK(ndl_get_version(&version));
  printf("driver: %s\n", version.driver_full_version);
  int indexes[MAX_NEURON_DEVICE_COUNT];
  const int count = ndl_available_devices(indexes, MAX_NEURON_DEVICE_COUNT);
  for (int i = 0; i < count; ++i) {
    ndl_device_init_param_t parameters = {true, 1, true};
    ndl_device_t* device = NULL;
    CHECK(ndl_open_device(indexes[i], &parameters, &device));
    print_device(device);
    if (i == 0) {
      const int is_same = copies_well(device, device->hbm_va_cnt - 1, size);
      printf("%zu bytes from HBM 0 to HBM %u: %s\n", size, device->hbm_va_cnt - 1,
             is_same ? "the same" : "DIFFERENT");
      if (!is_same) return 1;
    }
    CHECK(ndl_close_device(device));
  }
  return 0;
}

// What a kernel on the host sees of the threads of its launch. They are run by fibers.cc, which is
// compiled once for all kernels and linked to each.
#pragma once

#pragma GCC visibility push(hidden)  // each kernel has its own

struct uint3 { unsigned x, y, z; };
typedef uint3 dim3;

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

#define __shared__ static __attribute__((section("tf_shared")))

namespace tf_host {

typedef unsigned long long u64;
enum State : unsigned char { RUNNABLE, AT_BARRIER, AT_WARP, AT_CLUSTER, AT_MAIL, DONE };

struct Fiber;

struct alignas(16) Value {
  unsigned char bytes[16];
};

struct Mailbox {
  unsigned missing;     // bytes of the delivery that is expected
  unsigned deliveries;  // that are complete
};

struct Thread {
  State state;
  bool was_there;       // at the last release: it had not ended
  unsigned mask;        // the lanes it waits for
  unsigned arrivals;    // at barriers of the cluster
  const Mailbox* mail;  // where it waits for a delivery
  unsigned is_odd;      // of that delivery's number
  Fiber* fiber;
  Value offered;  // to the threads it waits together with
  Value shown;    // what was offered when they were let go; holds until the next release
};

extern Thread* threads;       // of the cluster
extern unsigned current;      // the running one
extern char* dynamic_shared;  // of the running block: what `extern __shared__` is on a GPU
extern void (*body)();        // what a thread does
extern void** arguments;

void wait(State state, unsigned mask);
void fail_index(long long index, long long extent);

template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Indices<I...> Type; };

template <class... P> struct Kernel {
  static inline void (*function)(P...);
  template <int... I> static void call(Indices<I...>) { function(*(P*)arguments[I]...); }
  static void run() { call(typename Count<sizeof...(P)>::Type()); }
};

template <class... P> void bind(void (*function)(P...), void** values) {
  Kernel<P...>::function = function;
  body = Kernel<P...>::run;
  arguments = values;
}

// Offer `value`, and wait until everyone concerned has.
template <class T> void exchange(T value, State state, unsigned mask) {
  static_assert(sizeof(T) <= sizeof(Value), "threads exchange at most 16 bytes");
  __builtin_memcpy(threads[current].offered.bytes, &value, sizeof(T));
  wait(state, mask);
}

template <class T> T shown(unsigned thread) {
  T value;
  __builtin_memcpy(&value, threads[thread].shown.bytes, sizeof(T));
  return value;
}

// `source` is a lane of the own segment of `width` lanes, or anything else to keep the own value.
template <class T> T shuffle(unsigned mask, T value, int source, int width) {
  exchange(value, AT_WARP, mask);
  int first = current & 31 & ~(width - 1);
  bool inside = source >= first && source < first + width;
  return shown<T>(inside ? (current & ~31u) + source : current);
}

inline int lane() { return current & 31; }

unsigned ballot(unsigned mask, bool vote);

// The lanes that offer the same value.
template <class T> unsigned match(unsigned mask, T value) {
  exchange(value, AT_WARP, mask);
  unsigned same = 0, warp = current & ~31u;
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1) && threads[warp + i].was_there && shown<T>(warp + i) == value) same |= 1u << i;
  return same;
}

int barrier_count(bool vote);

void arrive_at_cluster();
void await_cluster();

void copy(void* to, const void* from, unsigned bytes);
// To a variable of another block of the cluster, named by that of the running one.
void send_bytes(void* place, const void* from, unsigned bytes, Mailbox* mail, unsigned number);
template <class T> void send(T* place, T value, Mailbox* mail, unsigned number) {
  send_bytes(place, &value, sizeof(T), mail, number);
}
// Mail that the block sends itself.
void deliver(void* to, const void* from, unsigned bytes, Mailbox* mail);
void await_mail(const Mailbox* mail, unsigned is_odd);

void bind_kernel(void** values);  // the kernel's own: see TF_ENTRY

}  // namespace tf_host

#pragma GCC visibility pop

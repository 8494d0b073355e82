// The threads of a launch on the host: who runs when, and who waits for whom.
//
// A launch runs block after block. The threads of a block run one after the other, each to its end,
// on a stack (fiber) that passes from a finished thread to the next. A thread that has to wait, at
// a barrier or for the other lanes of its warp, keeps its stack, and the next thread gets another.
// So a kernel without barriers is a plain loop, and one with barriers needs nothing special.
//
// The blocks of a cluster are under way together: one runs until all its threads have ended or wait
// for another block, then the next one does. Its __shared__ variables lie in a section of their own,
// which is exchanged when another block's turn comes.
//
// One launch at a time: __shared__ variables and the state below are static. The caller locks.
#include "fibers.h"

#include <setjmp.h>
#include <ucontext.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// The linker names the ends of a section; the anchor is there for kernels that share nothing.
static __attribute__((section("tf_shared"), used, aligned(16))) char tf_shared_anchor[16];
extern __attribute__((visibility("hidden"))) char __start_tf_shared[], __stop_tf_shared[];

namespace tf_host {

const unsigned MAX_THREADS = 1024;   // CUDA's limit for a block
const unsigned MAX_CLUSTER = 16;     // blocks that a cluster may have on a large GPU
const u64 STACK_BYTES = 256 * 1024;  // pages of it that are never touched cost nothing
enum Order : int { FORWARD, REVERSE, SHUFFLED };
enum Outcome : int { OK, DIVERGED, OUT_OF_MEMORY, BAD_INDEX, LOST_MAIL };

struct Fiber {
  jmp_buf resume;
  bool has_started;
  Fiber* next_idle;
};

struct Block {
  unsigned live;  // threads that have not ended
  bool has_begun;
  char* shared;          // its __shared__ variables while another block runs
  char* dynamic_shared;  // what `extern __shared__` is on a GPU
};

// Of a cluster; those of a block from `first` on, in whole warps. What grows with their number is
// there for one launch: a process may keep thousands of kernels.
Thread* threads;
static Fiber* fibers;
static Block blocks[MAX_CLUSTER];
static unsigned order[MAX_THREADS];  // of the running block's threads
static unsigned thread_count, room, cluster_size, next_thread, fiber_count;
static unsigned block, first;  // the running block's number in its cluster, and its first thread
static u64 first_block;        // of the cluster
static Fiber *running, *idle;
static char* stacks;
static jmp_buf scheduler;
unsigned current;
char* dynamic_shared;
void (*body)();
void** arguments;

static Outcome fault;           // of a thread that gave up
static long long bad_index[2];  // the index, and the extent that it should lie below

static void leave() {
  if (!_setjmp(running->resume)) _longjmp(scheduler, 1);
}

static bool has_come(const Mailbox* mail, unsigned is_odd) { return mail->deliveries % 2 != is_odd; }

static void select(unsigned thread) {
  current = thread;
  threadIdx.x = thread - first;
}

static void run_threads() {
  for (;;) {
    while (next_thread < thread_count) {
      select(order[next_thread++]);
      body();
      threads[current].state = DONE;
      --blocks[block].live;
    }
    running->next_idle = idle;
    idle = running;
    leave();
  }
}

static void enter(Fiber* fiber) {
  running = fiber;
  if (_setjmp(scheduler)) return;
  if (fiber->has_started) _longjmp(fiber->resume, 1);
  fiber->has_started = true;
  static ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks + (fiber - fibers) * STACK_BYTES;
  context.uc_stack.ss_size = STACK_BYTES;
  context.uc_link = 0;
  makecontext(&context, run_threads, 0);
  setcontext(&context);
}

static Fiber* take_fiber() {
  if (!idle) return &fibers[fiber_count++];
  Fiber* fiber = idle;
  idle = fiber->next_idle;
  return fiber;
}

void wait(State state, unsigned mask) {
  Thread& thread = threads[current];
  thread.state = state;
  thread.mask = mask;
  thread.fiber = running;
  leave();
}

// The lanes of `mask` in the warp at `warp` all wait for each other, or have ended.
static bool meets(unsigned warp, unsigned mask) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const Thread& thread = threads[warp + lane];
    if ((mask >> lane & 1) && thread.state != DONE &&
        (thread.state != AT_WARP || thread.mask != mask))
      return false;
  }
  return true;
}

// How often every thread of the cluster that has not ended has arrived.
static unsigned arrivals_of_all() {
  unsigned least = ~0u;
  for (unsigned i = 0; i < cluster_size * room; ++i)
    if (threads[i].state != DONE && threads[i].arrivals < least) least = threads[i].arrivals;
  return least;
}

// Let go whoever of the running block has nobody to wait for any more; they all run before the next
// release. False if there is no one.
static bool release() {
  bool all_at_barrier = true, any = false;
  const unsigned arrived = arrivals_of_all();
  for (unsigned i = first; i < first + room; ++i) {
    all_at_barrier &= threads[i].state == AT_BARRIER || threads[i].state == DONE;
    threads[i].was_there = threads[i].state != DONE;
    threads[i].shown = threads[i].offered;
  }
  for (unsigned i = first; i < first + room; ++i) {
    if (threads[i].state == DONE) continue;
    const unsigned warp = i & ~31u, mask = threads[i].mask;
    const bool is_met = threads[i].state == AT_CLUSTER && threads[i].arrivals <= arrived;
    const bool has_mail = threads[i].state == AT_MAIL && has_come(threads[i].mail, threads[i].is_odd);
    if (all_at_barrier || is_met || has_mail) {
      threads[i].state = RUNNABLE;
      any = true;
    } else if (threads[i].state == AT_WARP && meets(warp, mask)) {
      for (unsigned lane = 0; lane < 32; ++lane)
        if ((mask >> lane & 1) && threads[warp + lane].state == AT_WARP)
          threads[warp + lane].state = RUNNABLE;
      any = true;
    }
  }
  return any;
}

static u64 random_state;

static u64 random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

// End the launch: nobody comes back to the threads that are under way.
static void fail(Outcome outcome) {
  fault = outcome;
  _longjmp(scheduler, 1);
}

void fail_index(long long index, long long extent) {
  bad_index[0] = index;
  bad_index[1] = extent;
  fail(BAD_INDEX);
}

// The numbers from `start` on in the chosen order.
static void arrange(Order kind, unsigned* numbers, unsigned count, unsigned start) {
  for (unsigned i = 0; i < count; ++i) numbers[i] = start + (kind == REVERSE ? count - 1 - i : i);
  for (unsigned i = count; kind == SHUFFLED && i > 1; --i) {
    unsigned other = random() % i, kept = numbers[i - 1];
    numbers[i - 1] = numbers[other];
    numbers[other] = kept;
  }
}

// It is the turn of this block of the cluster.
static void visit(unsigned number) {
  const u64 bytes = __stop_tf_shared - __start_tf_shared;
  if (number != block) {
    __builtin_memcpy(blocks[block].shared, __start_tf_shared, bytes);
    __builtin_memcpy(__start_tf_shared, blocks[number].shared, bytes);
  }
  block = number;
  first = number * room;
  blockIdx.x = first_block + number;
  dynamic_shared = blocks[number].dynamic_shared;
}

// Run the threads of a block until all have ended or wait for another block. False if none can run.
static bool advance(unsigned number, Order kind) {
  visit(number);
  bool any = !blocks[number].has_begun;
  arrange(kind, order, thread_count, first);
  if (any) {
    blocks[number].has_begun = true;
    next_thread = 0;
    while (next_thread < thread_count && !fault) enter(take_fiber());
  }
  while (!fault && release()) {
    any = true;
    arrange(kind, order, thread_count, first);
    for (unsigned i = 0; i < thread_count; ++i)
      if (threads[order[i]].state == RUNNABLE && !fault) {
        select(order[i]);
        enter(threads[current].fiber);
      }
  }
  return any;
}

static Outcome run_cluster(Order kind) {
  for (unsigned i = 0; i < cluster_size * room; ++i) {
    threads[i].state = i % room < thread_count ? RUNNABLE : DONE;
    threads[i].arrivals = 0;
  }
  for (unsigned b = 0; b < cluster_size; ++b) {
    blocks[b].live = thread_count;
    blocks[b].has_begun = false;
  }
  for (bool any = true, is_done = false; !is_done; any = false) {
    unsigned turns[MAX_CLUSTER];
    arrange(kind, turns, cluster_size, 0);
    for (unsigned i = 0; i < cluster_size && !fault; ++i) any = advance(turns[i], kind) || any;
    if (fault) return fault;
    is_done = true;
    for (unsigned b = 0; b < cluster_size; ++b) is_done &= !blocks[b].live;
    if (!any && !is_done) return DIVERGED;
  }
  return OK;
}

// A multiplier that visits every number below `count` once in an order that looks like none.
static u64 stride_of(u64 count) {
  for (u64 stride = 2654435761u % count + 1;; ++stride) {
    u64 a = stride, b = count;
    while (b) { u64 rest = a % b; a = b; b = rest; }
    if (a == 1) return stride;
  }
}

static Outcome run_grid(u64 count, Order kind) {
  const u64 clusters = count / cluster_size;
  u64 stride = kind == SHUFFLED ? stride_of(clusters) : 1;
  u64 shift = kind == SHUFFLED ? random() % clusters : 0;
  gridDim = {(unsigned)count, 1, 1};
  blockDim = {thread_count, 1, 1};
  for (u64 i = 0; i < clusters; ++i) {
    first_block = (kind == REVERSE ? clusters - 1 - i : (i * stride + shift) % clusters) * cluster_size;
    Outcome outcome = run_cluster(kind);
    if (outcome != OK) return outcome;
  }
  return OK;
}

// The memory of the blocks of a cluster, in one piece; null where there is none.
static char* divide_shared(u64 dynamic_bytes) {
  const u64 bytes = (__stop_tf_shared - __start_tf_shared + 15) / 16 * 16;
  const u64 each = bytes + dynamic_bytes / 16 * 16 + 16;
  char* memory = (char*)__builtin_calloc(cluster_size, each);
  for (unsigned b = 0; b < cluster_size; ++b) {
    blocks[b].shared = memory + b * each;
    blocks[b].dynamic_shared = blocks[b].shared + bytes;
  }
  return memory;
}

static Outcome launch(
    u64 count, unsigned cluster, unsigned threads_each, u64 shared_bytes, Order kind, u64 seed) {
  thread_count = threads_each;
  room = (threads_each + 31) / 32 * 32;
  cluster_size = cluster;
  block = 0;
  random_state = seed * 0x9e3779b97f4a7c15ull + 1;
  fiber_count = 0;
  idle = 0;
  fault = OK;
  fibers = (Fiber*)__builtin_calloc(cluster * threads_each, sizeof(Fiber));
  threads = (Thread*)__builtin_malloc(cluster * room * sizeof(Thread));
  stacks = (char*)__builtin_malloc(cluster * threads_each * STACK_BYTES);
  char* memory = divide_shared(shared_bytes);
  const bool has_memory = fibers && threads && stacks && memory;
  Outcome outcome = has_memory ? run_grid(count, kind) : OUT_OF_MEMORY;
  __builtin_free(fibers);
  __builtin_free(threads);
  __builtin_free(stacks);
  __builtin_free(memory);
  return outcome;
}

static bool voted(unsigned thread) { return threads[thread].was_there && shown<bool>(thread); }

unsigned ballot(unsigned mask, bool vote) {
  exchange(vote, AT_WARP, mask);
  unsigned votes = 0, warp = current & ~31u;
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1) && voted(warp + i)) votes |= 1u << i;
  return votes;
}

int barrier_count(bool vote) {
  exchange(vote, AT_BARRIER, 0);
  int votes = 0;
  for (unsigned i = first; i < first + room; ++i) votes += voted(i);
  return votes;
}

void arrive_at_cluster() { ++threads[current].arrivals; }
void await_cluster() {
  if (arrivals_of_all() < threads[current].arrivals) wait(AT_CLUSTER, 0);
}

// Where a variable of the running block lies in another one of its cluster.
template <class T> static T* in_block(T* place, unsigned number) {
  if (number == block) return place;
  char* own = (char*)place;
  const bool is_static = own >= __start_tf_shared && own < __stop_tf_shared;
  return (T*)(is_static ? blocks[number].shared + (own - __start_tf_shared)
                        : blocks[number].dynamic_shared + (own - dynamic_shared));
}

// Mail for a block that does not expect it, or has ended, would write to memory of nobody.
void send_bytes(void* place, const void* from, unsigned bytes, Mailbox* mail, unsigned number) {
  Mailbox* theirs = in_block(mail, number);
  const bool is_there = blocks[number].has_begun && blocks[number].live;
  if (!is_there || theirs->missing < bytes) fail(LOST_MAIL);
  __builtin_memcpy(in_block(place, number), from, bytes);
  theirs->missing -= bytes;
  theirs->deliveries += !theirs->missing;
}

void copy(void* to, const void* from, unsigned bytes) { __builtin_memcpy(to, from, bytes); }

// Mail that the block sends itself.
void deliver(void* to, const void* from, unsigned bytes, Mailbox* mail) {
  if (mail->missing < bytes) fail(LOST_MAIL);
  copy(to, from, bytes);
  mail->missing -= bytes;
  mail->deliveries += !mail->missing;
}

void await_mail(const Mailbox* mail, unsigned is_odd) {
  if (has_come(mail, is_odd)) return;
  threads[current].mail = mail;
  threads[current].is_odd = is_odd;
  wait(AT_MAIL, 0);
}

}  // namespace tf_host

#define TF_EXPORT extern "C" __attribute__((visibility("default")))

TF_EXPORT int tf_launch(
    void** values, tf_host::u64 blocks, unsigned cluster, unsigned threads,
    tf_host::u64 shared_bytes, int order, tf_host::u64 seed) {
  tf_host::bind_kernel(values);
  return tf_host::launch(blocks, cluster, threads, shared_bytes, (tf_host::Order)order, seed);
}

TF_EXPORT const long long* tf_bad_index() { return tf_host::bad_index; }

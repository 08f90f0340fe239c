package pgdyno.front;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.CompilationMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;

/** The virtual machine: memory, garbage collection, CPU. */
final class Jvm {
    private static final OperatingSystemMXBean SYSTEM =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    private static final CompilationMXBean COMPILER = ManagementFactory.getCompilationMXBean();

    private Jvm() {}

    static void write(Json json) {
        MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
        long collections = 0;
        long collectionMs = 0;
        for (GarbageCollectorMXBean each : ManagementFactory.getGarbageCollectorMXBeans()) {
            collections += Math.max(0, each.getCollectionCount());
            collectionMs += Math.max(0, each.getCollectionTime());
        }
        json.number("heap_bytes", heap.getUsed()).number("heap_bytes_max", heap.getMax());
        json.number("collections", collections).number("collection_ms", collectionMs);
        json.number("compile_ms", COMPILER == null ? 0 : COMPILER.getTotalCompilationTime());
        json.number("cpu_ns", SYSTEM.getProcessCpuTime());
        json.number("threads", ManagementFactory.getThreadMXBean().getThreadCount());
    }
}

// What V8 has and the engine lacks: Atomics, on one thread.

const INTEGERS = [Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array];

function element(array, index) {
    if (!INTEGERS.some((Class) => array instanceof Class)) throw new TypeError('[object Object] is not an integer typed array.');
    const at = Math.trunc(Number(index)) || 0;
    if (at < 0 || at >= array.length) throw new RangeError('Invalid atomic access index');
    return at;
}

function update(change) {
    return (array, index, value) => {
        const at = element(array, index);
        const old = array[at];
        array[at] = change(old, typeof old === 'bigint' ? BigInt(value) : Math.trunc(Number(value)) || 0);
        return old;
    };
}

if (globalThis.Atomics === undefined) {
    const methods = {
        add: update((old, value) => old + value),
        and: update((old, value) => old & value),
        compareExchange(array, index, expected, replacement) {
            const at = element(array, index);
            const old = array[at];
            // Converts as the array does.
            const wanted = new array.constructor([expected])[0];
            if (old === wanted) array[at] = replacement;
            return old;
        },
        exchange: update((old, value) => value),
        isLockFree: (size) => [1, 2, 4, 8].includes(Number(size)),
        load: (array, index) => array[element(array, index)],
        notify: (array, index) => (element(array, index), 0),
        or: update((old, value) => old | value),
        store(array, index, value) {
            const at = element(array, index);
            const converted = typeof array[at] === 'bigint' ? BigInt(value) : Math.trunc(Number(value)) || 0;
            array[at] = converted;
            return converted;
        },
        sub: update((old, value) => old - value),
        wait(array, index, value, timeout = Infinity) {
            const at = element(array, index);
            if (array[at] !== value) return 'not-equal';
            if (timeout === Infinity) throw new Error('Atomics.wait would wait forever: there is no other thread');
            const end = performance.now() + Number(timeout);
            while (performance.now() < end);
            return 'timed-out';
        },
        xor: update((old, value) => old ^ value),
    };
    const atomics = Object.create(Object.prototype, { [Symbol.toStringTag]: { value: 'Atomics', configurable: true } });
    for (const [name, value] of Object.entries(methods)) Object.defineProperty(atomics, name, { value, writable: true, configurable: true });
    Object.defineProperty(globalThis, 'Atomics', { value: atomics, writable: true, configurable: true });
}

export function useState<T>(start: T | (() => T)): [T, (next: T | ((now: T) => T)) => void];
export function useReducer<S, A>(reduce: (state: S, action: A) => S, start: S): [S, (action: A) => void];
export function useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useRef<T>(start: T): { current: T };
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T extends (...args: any[]) => unknown>(call: T, inputs: readonly unknown[]): T;
export function useId(): string;

// The little of Preact's interface that the page uses, for `tsc`.
export interface VNode { type: unknown; props: Record<string, unknown>; key: unknown }
export type Child = VNode | string | number | boolean | null | undefined | Child[];
export type Component<P> = (props: P & { children?: Child }) => Child;
export function h(type: string | Component<any>, props: Record<string, any> | null, ...children: Child[]): VNode;
export function render(node: Child, into: Element): void;
export const Fragment: Component<{}>;

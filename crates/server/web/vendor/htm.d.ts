declare const htm: { bind<T>(h: (...args: any[]) => T): (strings: TemplateStringsArray, ...values: unknown[]) => T };
export default htm;
